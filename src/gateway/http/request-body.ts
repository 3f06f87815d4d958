import type { IncomingMessage } from 'node:http';
import { ClientGone, Refusal, refusals } from '../refusal.ts';

const strictUtf8 = new TextDecoder('utf-8', { fatal: true });

interface BodyOptions {
  readonly limit_bytes: number;
  readonly timeout_ms: number;
  /** Hears of the bytes of each part before it is kept. Throws where they are too many. */
  readonly hold: (bytes: number) => void;
  readonly signal: AbortSignal;
}

/** The body of a request as text. Throws a Refusal, ClientGone or the reason of `signal`. */
export async function readBody(request: IncomingMessage, options: BodyOptions): Promise<string> {
  const { limit_bytes } = options;
  if (Number(request.headers['content-length'] ?? 0) > limit_bytes) throw refusals.requestTooLarge(limit_bytes);
  const bytes = await collect(request, options);
  try {
    return strictUtf8.decode(bytes);
  } catch {
    throw new Refusal('user', '22021', 'the body is not valid UTF-8');
  }
}

function collect(
  request: IncomingMessage,
  { limit_bytes, timeout_ms, hold, signal }: BodyOptions,
): Promise<Buffer<ArrayBufferLike>> {
  return new Promise((resolve, reject) => {
    const parts: Buffer[] = [];
    let total_bytes = 0;
    const timer = setTimeout(() => settle(() => reject(refusals.requestTimeout())), timeout_ms);
    const settle = (then: () => void) => {
      clearTimeout(timer);
      request.off('data', onData).off('end', onEnd).off('close', onClose);
      signal.removeEventListener('abort', onAbort);
      then();
    };
    const onData = (part: Buffer) => {
      total_bytes += part.length;
      try {
        if (total_bytes > limit_bytes) throw refusals.requestTooLarge(limit_bytes);
        hold(part.length);
        parts.push(part);
      } catch (error) {
        settle(() => reject(error));
      }
    };
    const onEnd = () => settle(() => resolve(parts.length === 1 ? parts[0]! : Buffer.concat(parts)));
    const onClose = () => settle(() => reject(new ClientGone()));
    const onAbort = () => settle(() => reject(signal.reason));
    if (signal.aborted) return onAbort();
    request
      .on('data', onData)
      .on('end', onEnd)
      .on('close', onClose)
      .on('error', () => undefined);
    signal.addEventListener('abort', onAbort, { once: true });
  });
}
