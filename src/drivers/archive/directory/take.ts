import { createHash } from 'node:crypto';
import { constants } from 'node:fs';
import { copyFile, type FileHandle, link, lstat, open, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { ArchiveWriter } from '../contract.ts';
import type { SumsEntry } from './sums.ts';

/** Of 1 MB where we made the server; others may have up to this. */
const FILE_BYTES_MAX = 64 * 1024 * 1024;
/** Ours, and readable to the server's group: it may still have to read a segment that it shares with us. */
const MODE = 0o440;

/** A file that lies in a directory where a customer can put anything. */
class RefusedFile extends Error {}

export const sha256Of = (bytes: Buffer): string => createHash('sha256').update(bytes).digest('hex');

/** Opens a plain file without following a link or waiting for a pipe. */
async function openPlain(path: string): Promise<FileHandle> {
  const handle = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK).catch((error) => {
    throw error.code === 'ELOOP' ? new RefusedFile('it is a symbolic link') : error;
  });
  if ((await handle.stat()).isFile()) return handle;
  await handle.close();
  throw new RefusedFile('it is not a plain file');
}

/** Reads a file that its writer may still be changing: the bytes that were there, of a size that is bounded. */
async function readBounded(handle: FileHandle): Promise<Buffer> {
  const { size } = await handle.stat();
  if (size > FILE_BYTES_MAX) throw new RefusedFile(`it has ${size} bytes, more than a segment may have`);
  const bytes = Buffer.alloc(size);
  for (let filled = 0; filled < size; ) {
    const { bytesRead } = await handle.read(bytes, filled, size - filled, filled);
    if (bytesRead === 0) throw new RefusedFile('it became shorter while it was read');
    filled += bytesRead;
  }
  return bytes;
}

/**
 * Makes a file of the incoming directory one of the group's, which is ours from then on; it stays in the incoming
 * directory until the caller has noted it. Throws RefusedFile for what the writer cannot have meant.
 *
 * @param known what is noted of a file of that name
 */
export async function takeFile(
  { incoming, group, name }: { incoming: string; group: string; name: string },
  writer: ArchiveWriter | undefined,
  known: SumsEntry | undefined,
  check: (bytes: Buffer) => void | Promise<void>,
): Promise<SumsEntry> {
  const handle = await openPlain(join(incoming, name));
  try {
    const { uid, ino, dev } = await handle.stat();
    const there = await lstat(join(group, name)).catch(() => undefined);
    const taken = there?.ino === ino && there.dev === dev;
    // A hard link to a file of somebody else's, which must not change hands.
    if (!taken && writer && uid !== writer.uid) throw new RefusedFile(`it belongs to user ${uid}`);
    const bytes = await readBounded(handle);
    const sha256 = sha256Of(bytes);
    if (known && !known.copy && known.sha256 !== sha256) {
      throw new RefusedFile('another file of that name is in the archive');
    }
    await check(bytes);
    if (writer) await handle.chown(0, writer.gid);
    await handle.chmod(MODE);
    await handle.sync();
    if (!taken) await linkOver(join(incoming, name), join(group, name));
    return { name, bytes: bytes.length, sha256, archived_at: new Date(), copy: false };
  } finally {
    await handle.close();
  }
}

async function linkOver(from: string, to: string): Promise<void> {
  const beside = `${to}.new`;
  await rm(beside, { force: true });
  await link(from, beside);
  await rename(beside, to);
}

/** Copies a plain file into the group, sharing blocks where the file system can. */
export async function takeCopyOf(
  path: string,
  { group, name }: { group: string; name: string },
  writer: ArchiveWriter | undefined,
): Promise<SumsEntry> {
  const source = await openPlain(path);
  const beside = join(group, `${name}.new`);
  try {
    await rm(beside, { force: true });
    const bytes = await readBounded(source);
    const copy = await open(beside, 'wx', 0o600);
    try {
      await copy.writeFile(bytes);
      if (writer) await copy.chown(0, writer.gid);
      await copy.chmod(MODE);
      await copy.sync();
    } finally {
      await copy.close();
    }
    await rename(beside, join(group, name));
    return { name, bytes: bytes.length, sha256: sha256Of(bytes), archived_at: new Date(), copy: true };
  } finally {
    await source.close();
  }
}

/** Copies one of our files to a new one that can be changed, sharing blocks where the file system can. */
export async function giveCopy(from: string, to: string): Promise<void> {
  await copyFile(from, to, constants.COPYFILE_EXCL | constants.COPYFILE_FICLONE);
  const handle = await open(to, constants.O_RDONLY | constants.O_NOFOLLOW);
  try {
    await handle.chmod(0o600);
  } finally {
    await handle.close();
  }
}
