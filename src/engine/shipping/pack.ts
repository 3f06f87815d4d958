import { createHash } from 'node:crypto';
import { type ArchivedFile, ArchiveError } from '../../drivers/archive/contract.ts';
import { ObjectError, type ObjectStore } from '../../drivers/objects/contract.ts';
import { getSealed, putSealed } from '../objects/sealed.ts';

/**
 * Some files of a log as one object: a line of JSON that says which, a line feed, and the files one after the other, sealed
 * together.
 */
const FORMAT = 1;

interface PackHeader {
  readonly format: number;
  readonly files: readonly { readonly name: string; readonly bytes: number; readonly sha256: string }[];
}

export interface PackedFile extends Pick<ArchivedFile, 'name' | 'bytes' | 'sha256'> {
  readonly contents: Buffer;
}

/** The pack is in object storage, which has confirmed it. */
export async function putPack(objects: ObjectStore, key: string, files: readonly PackedFile[]): Promise<void> {
  const header: PackHeader = {
    format: FORMAT,
    files: files.map(({ name, bytes, sha256 }) => ({ name, bytes, sha256 })),
  };
  const parts = [Buffer.from(`${JSON.stringify(header)}\n`), ...files.map(({ contents }) => contents)];
  await putSealed(objects, key, Buffer.concat(parts));
}

/** What a pack holds, by name. Throws ObjectError `missing` or `damaged`, or what keeps it from being asked for. */
export async function getPack(objects: ObjectStore, key: string): Promise<Map<string, Buffer>> {
  const bytes = await getSealed(objects, key);
  const end = bytes.indexOf(0x0a);
  const header = JSON.parse(bytes.toString('utf8', 0, end)) as PackHeader;
  if (header.format !== FORMAT) {
    throw new Error(`${key} in ${objects.place} was written by a newer Coppice (format ${header.format})`);
  }
  const files = new Map<string, Buffer>();
  let offset = end + 1;
  for (const { name, bytes: length } of header.files) {
    files.set(name, bytes.subarray(offset, offset + length));
    offset += length;
  }
  return files;
}

/** One file of a pack, which must be the one that was archived. Throws ArchiveError for what is missing or damaged. */
export function fileOf(files: ReadonlyMap<string, Buffer>, { name, sha256 }: ArchivedFile, key: string): Buffer {
  const contents = files.get(name);
  if (contents && createHash('sha256').update(contents).digest('hex') === sha256) return contents;
  throw new ArchiveError('checksum', name, `${name} is not in the pack ${key} as it was archived`);
}

/** What is wrong with a pack in the words of an archive; what keeps it from being asked for as it is. */
export function archiveErrorOf(error: unknown, name: string): unknown {
  if (!(error instanceof ObjectError)) return error;
  if (error.kind === 'missing') return new ArchiveError('missing', name, `${name} is not there: ${error.message}`);
  if (error.kind === 'damaged') return new ArchiveError('checksum', name, `${name} is lost: ${error.message}`);
  return error;
}
