import {
  AbortMultipartUploadCommand,
  CompleteMultipartUploadCommand,
  CreateMultipartUploadCommand,
  DeleteObjectCommand,
  HeadObjectCommand,
  PutObjectCommand,
  UploadPartCommand,
} from '@aws-sdk/client-s3';
import { type ObjectCall, ObjectError } from '../contract.ts';
import type { Bucket } from './bucket.ts';
import { compositeOf, sha256Of } from './checksums.ts';

/** S3 takes ten thousand parts: 160 GB. */
const PART_BYTES = 16 * 1024 ** 2;
const PARTS_MAX = 10_000;
/** So many parts are in memory. */
const CONCURRENT_PARTS = 3;
/** Kept with an object of several parts, so that its checksum can be reckoned by whoever reads it. */
export const PART_BYTES_LABEL = 'part-bytes';

/** Puts an object in one request. */
export async function putWhole(bucket: Bucket, key: string, bytes: Buffer, call?: ObjectCall): Promise<void> {
  const sum = sha256Of(bytes);
  const input = { Bucket: bucket.name, Key: bucket.fullKey(key), Body: bytes, ChecksumSHA256: sum };
  const answer = await bucket.ask(key, call, (abortSignal) =>
    bucket.client.send(new PutObjectCommand(input), { abortSignal }),
  );
  if (answer.ChecksumSHA256 !== sum) await assertStored(bucket, key, sum, call);
}

/** Puts an object of any size; returns its bytes. */
export async function putParts(
  bucket: Bucket,
  key: string,
  source: AsyncIterable<Buffer>,
  call?: ObjectCall,
): Promise<number> {
  const parts = inParts(source)[Symbol.asyncIterator]();
  const first = await parts.next();
  const second = first.done ? first : await parts.next();
  if (second.done) {
    const bytes = first.done ? Buffer.alloc(0) : first.value;
    await putWhole(bucket, key, bytes, call);
    return bytes.length;
  }
  const rest = async function* () {
    yield first.value as Buffer;
    yield second.value;
    for (let next = await parts.next(); !next.done; next = await parts.next()) yield next.value;
  };
  const target = { Bucket: bucket.name, Key: bucket.fullKey(key) };
  const { UploadId } = await bucket.ask(key, call, (abortSignal) => {
    const Metadata = { [PART_BYTES_LABEL]: String(PART_BYTES) };
    return bucket.client.send(new CreateMultipartUploadCommand({ ...target, Metadata, ChecksumAlgorithm: 'SHA256' }), {
      abortSignal,
    });
  });
  const upload = { ...target, UploadId };
  try {
    const { sent, bytes } = await sendParts(bucket, key, upload, rest(), call);
    await complete(bucket, key, upload, sent, call);
    return bytes;
  } catch (error) {
    // What is left of it all the same is removed by a later check.
    await bucket
      .ask(key, undefined, (abortSignal) =>
        bucket.client.send(new AbortMultipartUploadCommand(upload), { abortSignal }),
      )
      .catch(() => undefined);
    throw error;
  }
}

interface Upload {
  readonly Bucket: string;
  readonly Key: string;
  readonly UploadId: string | undefined;
}

interface SentPart {
  readonly PartNumber: number;
  readonly ETag: string | undefined;
  readonly ChecksumSHA256: string;
}

async function sendParts(
  bucket: Bucket,
  key: string,
  upload: Upload,
  source: AsyncIterable<Buffer>,
  call?: ObjectCall,
): Promise<{ sent: SentPart[]; bytes: number }> {
  const sent: SentPart[] = [];
  const underWay = new Set<Promise<void>>();
  let failure: unknown;
  let bytes = 0;
  const send = async (PartNumber: number, Body: Buffer) => {
    const ChecksumSHA256 = sha256Of(Body);
    const answer = await bucket.ask(key, call, (abortSignal) =>
      bucket.client.send(new UploadPartCommand({ ...upload, PartNumber, Body, ChecksumSHA256 }), { abortSignal }),
    );
    // One that says nothing here must say it of the whole.
    if (answer.ChecksumSHA256 !== undefined && answer.ChecksumSHA256 !== ChecksumSHA256) throw notStored(bucket, key);
    sent[PartNumber - 1] = { PartNumber, ETag: answer.ETag, ChecksumSHA256 };
  };
  try {
    let number = 0;
    for await (const part of source) {
      if (++number > PARTS_MAX) {
        throw new Error(`${key} is larger than the ${PARTS_MAX} parts of ${PART_BYTES} bytes that S3 takes`);
      }
      bytes += part.length;
      const running = send(number, part)
        .catch((error) => {
          failure ??= error;
        })
        .finally(() => underWay.delete(running));
      underWay.add(running);
      while (underWay.size >= CONCURRENT_PARTS) await Promise.race(underWay);
      if (failure) throw failure;
    }
  } finally {
    await Promise.all(underWay);
  }
  if (failure) throw failure;
  return { sent, bytes };
}

async function complete(
  bucket: Bucket,
  key: string,
  upload: Upload,
  sent: readonly SentPart[],
  call?: ObjectCall,
): Promise<void> {
  const sum = compositeOf(sent.map(({ ChecksumSHA256 }) => ChecksumSHA256));
  const command = new CompleteMultipartUploadCommand({ ...upload, MultipartUpload: { Parts: [...sent] } });
  try {
    const answer = await bucket.ask(key, call, (abortSignal) => bucket.client.send(command, { abortSignal }));
    if (answer.ChecksumSHA256 === sum) return;
  } catch (error) {
    if (!(error instanceof ObjectError)) throw error;
    // It may be done, and only its answer was lost.
    const stored = await storedChecksum(bucket, key, call).catch(() => undefined);
    if (stored === sum) return;
    throw error;
  }
  await assertStored(bucket, key, sum, call);
}

/** Throws unless the store says that this is the checksum of what it holds; the object is removed then. */
async function assertStored(bucket: Bucket, key: string, sum: string, call?: ObjectCall): Promise<void> {
  const stored = await storedChecksum(bucket, key, call);
  if (stored === sum) return;
  const target = { Bucket: bucket.name, Key: bucket.fullKey(key) };
  await bucket.ask(key, undefined, (abortSignal) =>
    bucket.client.send(new DeleteObjectCommand(target), { abortSignal }),
  );
  if (stored !== undefined) throw notStored(bucket, key);
  const advice =
    'it does not confirm what it stores by SHA-256, so that nothing could be trusted to it; use one that does';
  throw new ObjectError('refused', key, `${bucket.place} cannot be used: ${advice}`);
}

const notStored = ({ place }: Bucket, key: string) =>
  new ObjectError('damaged', key, `${place} did not store what was sent as ${key}`);

async function storedChecksum(bucket: Bucket, key: string, call?: ObjectCall): Promise<string | undefined> {
  const input = { Bucket: bucket.name, Key: bucket.fullKey(key), ChecksumMode: 'ENABLED' as const };
  const answer = await bucket.ask(key, call, (abortSignal) =>
    bucket.client.send(new HeadObjectCommand(input), { abortSignal }),
  );
  return answer.ChecksumSHA256;
}

/** Pieces of any size as parts of one size, the last of which may be smaller. */
async function* inParts(source: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  let part = Buffer.alloc(PART_BYTES);
  let filled = 0;
  for await (const piece of source) {
    for (let offset = 0; offset < piece.length; ) {
      const copied = piece.copy(part, filled, offset);
      offset += copied;
      filled += copied;
      if (filled < PART_BYTES) continue;
      yield part;
      part = Buffer.alloc(PART_BYTES);
      filled = 0;
    }
  }
  if (filled > 0) yield part.subarray(0, filled);
}
