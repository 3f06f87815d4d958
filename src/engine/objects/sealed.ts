import { createHash } from 'node:crypto';
import { promisify } from 'node:util';
import { zstdCompress, zstdDecompress } from 'node:zlib';
import { ObjectError, type ObjectStore } from '../../drivers/objects/contract.ts';

const compress = promisify(zstdCompress);
const decompress = promisify(zstdDecompress);
const SUM_BYTES = 32;

/** The name of a chunk, and what a sealed object begins with. */
export const sha256Of = (bytes: Buffer): Buffer => createHash('sha256').update(bytes).digest();

/** Compressed, behind the checksum of what it is: damage is seen by whoever opens it, wherever it lay meanwhile. */
export async function putSealed(
  objects: ObjectStore,
  key: string,
  bytes: Buffer,
  signal?: AbortSignal,
): Promise<number> {
  const sealed = Buffer.concat([sha256Of(bytes), await compress(bytes)]);
  await objects.put(key, sealed, { signal });
  return sealed.length;
}

/** What `putSealed` was given. Throws an ObjectError of kind `missing` or `damaged`. */
export async function getSealed(objects: ObjectStore, key: string, signal?: AbortSignal): Promise<Buffer> {
  const sealed = await objects.get(key, { signal });
  const damaged = (cause?: unknown) =>
    new ObjectError('damaged', key, `${key} in ${objects.place} is not what was stored there`, { cause });
  const bytes = await decompress(sealed.subarray(SUM_BYTES)).catch((cause) => {
    throw damaged(cause);
  });
  if (!sha256Of(bytes).equals(sealed.subarray(0, SUM_BYTES))) throw damaged();
  return bytes;
}
