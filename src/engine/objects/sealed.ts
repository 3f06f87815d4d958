import { createHash } from 'node:crypto';
import { promisify } from 'node:util';
import { zstdCompress, zstdDecompress } from 'node:zlib';
import { ObjectError, type ObjectStore } from '../../drivers/objects/contract.ts';

const compress = promisify(zstdCompress);
const decompress = promisify(zstdDecompress);
const SUM_BYTES = 32;
/** What is larger is not stored, and nothing that claims to be is unpacked: whoever can write there must not fill our memory. */
const SEALED_BYTES_MAX = 512 * 1024 ** 2;

/** The name of a chunk, and what a sealed object begins with. */
export const sha256Of = (bytes: Buffer): Buffer => createHash('sha256').update(bytes).digest();

/**
 * Compressed, behind the checksum of what it is: damage is seen by whoever opens it, wherever it lay meanwhile. Returns how
 * many bytes are stored.
 */
export async function putSealed(
  objects: ObjectStore,
  key: string,
  bytes: Buffer,
  signal?: AbortSignal,
): Promise<number> {
  if (bytes.length > SEALED_BYTES_MAX)
    throw new Error(`${key} would hold ${bytes.length} bytes, which is too much for one object`);
  const sealed = Buffer.concat([sha256Of(bytes), await compress(bytes)]);
  await objects.put(key, sealed, { signal });
  return sealed.length;
}

/**
 * What `putSealed` was given. Throws an ObjectError of kind `missing` or `damaged`.
 *
 * @param bytes_max what is larger is damaged
 */
export async function getSealed(
  objects: ObjectStore,
  key: string,
  signal?: AbortSignal,
  bytes_max = SEALED_BYTES_MAX,
): Promise<Buffer> {
  const sealed = await objects.get(key, { signal });
  const damaged = (cause?: unknown) =>
    new ObjectError('damaged', key, `${key} in ${objects.place} is not what was stored there`, { cause });
  const bytes = await decompress(sealed.subarray(SUM_BYTES), { maxOutputLength: bytes_max }).catch((cause) => {
    throw damaged(cause);
  });
  if (!sha256Of(bytes).equals(sealed.subarray(0, SUM_BYTES))) throw damaged();
  return bytes;
}
