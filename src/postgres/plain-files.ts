import { constants } from 'node:fs';
import { type FileHandle, open, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';

/**
 * File work in a data directory, where a customer who broke out of the server could have put links and pipes, or put
 * them in while we look. Node has no openat(2); on Linux `/proc/self/fd/<n>/<name>` means the same. Elsewhere plain paths
 * are used: there everything runs as one user, so that a swapped directory gains nothing.
 */
const DESCRIPTORS = process.platform === 'linux' ? '/proc/self/fd' : undefined;

/**
 * Holds a directory open while `use` works in it by the path given, which is that very directory whatever is renamed
 * meanwhile. Refuses a symbolic link in the last component (ELOOP or ENOTDIR).
 */
export async function inDirectory<T>(path: string, use: (path: string) => Promise<T>): Promise<T> {
  const handle = await open(path, constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW);
  try {
    return await use(DESCRIPTORS ? join(DESCRIPTORS, String(handle.fd)) : path);
  } finally {
    await handle.close();
  }
}

/** Reads a whole plain file of at most `limit_bytes`; a link, a pipe or a larger file throws. */
export async function readPlainFile(path: string, limit_bytes: number): Promise<Buffer> {
  const handle = await openPlain(path);
  try {
    const { size } = await handle.stat();
    if (size > limit_bytes) throw new Error(`${path} has ${size} bytes, more than the ${limit_bytes} it may have`);
    const bytes = Buffer.alloc(size);
    let filled = 0;
    while (filled < size) {
      const { bytesRead } = await handle.read(bytes, filled, size - filled, filled);
      if (bytesRead === 0) break;
      filled += bytesRead;
    }
    return bytes.subarray(0, filled);
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
    if (process.getuid?.() === 0) {
      const { uid, gid } = await stat(dirname(path));
      await handle.chown(uid, gid);
    }
  } finally {
    await handle.close();
  }
}

async function openPlain(path: string): Promise<FileHandle> {
  const handle = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  if ((await handle.stat()).isFile()) return handle;
  await handle.close();
  throw new Error(`${path} is not a plain file`);
}
