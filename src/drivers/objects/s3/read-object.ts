import type { Readable } from 'node:stream';
import { GetObjectCommand } from '@aws-sdk/client-s3';
import { type ObjectCall, ObjectError } from '../contract.ts';
import type { Bucket } from './bucket.ts';
import { checksumAgainst } from './checksums.ts';
import { PART_BYTES_LABEL } from './write-object.ts';

/** What comes slower for longer than a request may take counts as not coming. */
const SLOWEST_BYTES_PER_MS = 64;

/**
 * The bytes of an object, in pieces. A connection that breaks is made again where it broke, a bounded number of times.
 */
export async function* readObject(bucket: Bucket, key: string, call?: ObjectCall): AsyncGenerator<Buffer> {
  const damaged = (why: string) =>
    new ObjectError('damaged', key, `${key} in ${bucket.place} is not what was stored there: ${why}`);
  const first = await ask(bucket, key, { ChecksumMode: 'ENABLED' }, call);
  const total = first.ContentLength ?? 0;
  const sum = checksumAgainst(first.ChecksumSHA256, Number(first.Metadata?.[PART_BYTES_LABEL]) || undefined);
  let received = 0;
  let broken = 0;
  for (let answer = first; ; ) {
    try {
      for await (const piece of piecesOf(answer.Body as Readable, bucket)) {
        call?.signal?.throwIfAborted();
        received += piece.length;
        sum.add(piece);
        yield piece;
      }
      break;
    } catch (error) {
      call?.signal?.throwIfAborted();
      if (/checksum mismatch/i.test((error as Error).message)) throw damaged('its checksum is another one');
      if (received >= total) break;
      if (++broken >= bucket.limits.attempts) {
        const message = `${bucket.place} cannot be reached, or is too slow: ${received} of ${total} bytes of ${key} came`;
        throw new ObjectError('unreachable', key, message);
      }
    }
    answer = await ask(bucket, key, { Range: `bytes=${received}-`, IfMatch: first.ETag }, call);
  }
  if (received !== total) throw damaged(`${received} bytes of ${total} came`);
  if (!sum.matches()) throw damaged('its checksum is another one');
}

function ask(
  bucket: Bucket,
  key: string,
  input: { readonly ChecksumMode?: 'ENABLED'; readonly Range?: string; readonly IfMatch?: string | undefined },
  call?: ObjectCall,
) {
  const command = new GetObjectCommand({ Bucket: bucket.name, Key: bucket.fullKey(key), ...input });
  return bucket.ask(key, call, (abortSignal) => bucket.client.send(command, { abortSignal }));
}

/** Throws when nothing comes for too long, or too little. */
async function* piecesOf(body: Readable, { limits }: Bucket): AsyncGenerator<Buffer> {
  const pieces = body[Symbol.asyncIterator]() as AsyncIterator<Buffer>;
  let waited_ms = 0;
  let bytes = 0;
  try {
    for (;;) {
      const asked_at = performance.now();
      const next = await within(pieces.next(), limits.idle_ms);
      waited_ms += performance.now() - asked_at;
      if (next.done) return;
      bytes += next.value.length;
      if (waited_ms > limits.total_ms + bytes / SLOWEST_BYTES_PER_MS) throw new Error('it comes too slowly');
      yield next.value;
    }
  } finally {
    body.destroy();
  }
}

async function within<T>(promise: Promise<T>, limit_ms: number): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`nothing came for ${limit_ms} ms`)), limit_ms);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}
