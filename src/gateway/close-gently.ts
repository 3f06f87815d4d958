import type { Duplex } from 'node:stream';

/**
 * Sends the last bytes and closes, within `timeout_ms`. Input is read and dropped until the peer closes its side, since
 * closing with unread input resets the connection and the peer may never see what was sent.
 *
 * @param peerEnded aborts when the peer closes its side, for a stream that is read by other means than its own
 */
export function closeGently(
  stream: Duplex,
  lastBytes: Buffer,
  timeout_ms: number,
  peerEnded?: AbortSignal,
): Promise<void> {
  return new Promise((resolve) => {
    if (stream.destroyed) return resolve();
    const timer = setTimeout(() => stream.destroy(), timeout_ms);
    const close = () => {
      if ((peerEnded?.aborted || stream.readableEnded) && stream.writableFinished) stream.destroy();
    };
    peerEnded?.addEventListener('abort', close, { once: true });
    stream.on('error', () => undefined);
    stream.once('close', () => {
      clearTimeout(timer);
      resolve();
    });
    stream.on('data', () => undefined);
    stream.once('end', close);
    stream.resume();
    stream.end(lastBytes, close);
  });
}
