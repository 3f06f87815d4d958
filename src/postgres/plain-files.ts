import { constants } from 'node:fs';
import { copyFile, type FileHandle, lchown, mkdir, open, rm, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';

/**
 * File work in a data directory, where a customer who broke out of the server could have put links and pipes, or put
 * them in while we look. Node has no openat(2); on Linux `/proc/self/fd/<n>/<name>` means the same. Elsewhere plain paths
 * are used: there everything runs as one user, so that a swapped directory gains nothing.
 */
const DESCRIPTORS = process.platform === 'linux' ? '/proc/self/fd' : undefined;

const descriptorPath = ({ fd }: FileHandle, path: string): string =>
  DESCRIPTORS ? join(DESCRIPTORS, String(fd)) : path;

/**
 * Holds a directory open while `use` works in it by the path given, which is that very directory whatever is renamed
 * meanwhile. Refuses a symbolic link in the last component (ELOOP or ENOTDIR).
 */
export async function inDirectory<T>(path: string, use: (path: string) => Promise<T>): Promise<T> {
  const handle = await open(path, constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW);
  try {
    return await use(descriptorPath(handle, path));
  } finally {
    await handle.close();
  }
}

/** Reads a whole plain file of at most `limit_bytes`; a link, a pipe or a larger file throws. */
export async function readPlainFile(path: string, limit_bytes: number): Promise<Buffer> {
  const handle = await openPlain(path);
  try {
    return await readBytes(handle, path, limit_bytes);
  } finally {
    await handle.close();
  }
}

/** The first bytes of a plain file, fewer where it has fewer, and how many it has; a link or a pipe throws. */
export async function readPlainHead(path: string, bytes: number): Promise<{ head: Buffer; size_bytes: number }> {
  const handle = await openPlain(path);
  try {
    const { size } = await handle.stat();
    const { buffer, bytesRead } = await handle.read(Buffer.alloc(bytes), 0, bytes, 0);
    return { head: buffer.subarray(0, bytesRead), size_bytes: size };
  } finally {
    await handle.close();
  }
}

/** Makes a file that must not be there yet. It belongs to whom its directory belongs to. */
export async function writeNewFile(path: string, bytes: Buffer | string): Promise<void> {
  const { O_WRONLY, O_CREAT, O_EXCL, O_NOFOLLOW } = constants;
  const handle = await open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0o600);
  try {
    await handle.writeFile(bytes);
    await giveToOwner(path);
  } finally {
    await handle.close();
  }
}

/** Makes a directory that must not be there yet, which belongs to whom the one around it belongs to. */
export async function makeDirectoryLike(parent: string, name: string): Promise<void> {
  await mkdir(join(parent, name), { mode: 0o700 });
  await giveToOwner(join(parent, name));
}

/** What was written to a plain file is on disk. */
export async function syncPlainFile(path: string): Promise<void> {
  const handle = await openPlain(path);
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

/** Copies a plain file of at most `limit_bytes` to a new one, sharing blocks where the file system can. */
export async function copyPlainFile(from: string, to: string, limit_bytes: number): Promise<void> {
  const handle = await openPlain(from);
  try {
    await copyFile(descriptorPath(handle, from), to, constants.COPYFILE_EXCL | constants.COPYFILE_FICLONE_FORCE);
    await giveToOwner(to);
    await makeWritable(to);
  } catch {
    // Not by letting `copyFile` copy the bytes, which never returns when the file shrinks meanwhile.
    await rm(to, { force: true });
    await writeNewFile(to, await readBytes(handle, from, limit_bytes));
  } finally {
    await handle.close();
  }
}

/** A copy has the mode of what it was copied from, and a segment that was archived may only be read. */
async function makeWritable(path: string): Promise<void> {
  const handle = await openPlain(path);
  try {
    await handle.chmod(0o600);
  } finally {
    await handle.close();
  }
}

/** A new file belongs to whom its directory belongs to. */
async function giveToOwner(path: string): Promise<void> {
  if (process.getuid?.() !== 0) return;
  const { uid, gid } = await stat(dirname(path));
  await lchown(path, uid, gid);
}

async function openPlain(path: string): Promise<FileHandle> {
  const handle = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  if ((await handle.stat()).isFile()) return handle;
  await handle.close();
  throw new Error(`${path} is not a plain file`);
}

async function readBytes(handle: FileHandle, path: string, limit_bytes: number): Promise<Buffer> {
  const { size } = await handle.stat();
  if (size > limit_bytes) throw new Error(`${path} has ${size} bytes, more than the ${limit_bytes} it may have`);
  const bytes = Buffer.alloc(size);
  for (let filled = 0; filled < size; ) {
    const { bytesRead } = await handle.read(bytes, filled, size - filled, filled);
    if (bytesRead === 0) throw new Error(`${path} became shorter while it was read`);
    filled += bytesRead;
  }
  return bytes;
}
