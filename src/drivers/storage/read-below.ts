import { closeSync, fstatSync, read as readCallback } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { type OpenDirectory, openDirectory, openFile } from './open-directory.ts';
import { RefusedEntryError } from './walk.ts';

const read = promisify(readCallback);

/**
 * Reads a piece of a file of a tree that somebody hostile may change: every directory on the way is opened without
 * following links. Fewer bytes only at the file's end.
 */
export async function readBelow(root: string, path: string, offset: number, bytes: number): Promise<Buffer> {
  const fd = openBelow(root, path);
  try {
    const buffer = Buffer.allocUnsafe(bytes);
    let length = 0;
    while (length < bytes) {
      const { bytesRead } = await read(fd, buffer, length, bytes - length, offset + length);
      if (bytesRead === 0) break;
      length += bytesRead;
    }
    return buffer.subarray(0, length);
  } finally {
    closeSync(fd);
  }
}

function openBelow(root: string, path: string): number {
  const names = path.split('/');
  if (names.some((name) => name === '' || name === '.' || name === '..')) {
    throw new Error(`${JSON.stringify(path)} is not a path below a volume`);
  }
  let directory: OpenDirectory = openDirectory(root);
  try {
    for (const name of names.slice(0, -1)) {
      const next = openDirectory(join(directory.path, name));
      closeSync(directory.fd);
      directory = next;
    }
    const fd = openFile(directory, names.at(-1)!);
    if (fstatSync(fd).isFile()) return fd;
    closeSync(fd);
    throw new RefusedEntryError(path, 'was replaced by a special file while it was read');
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code !== 'ELOOP' && code !== 'ENOTDIR' && code !== 'ENXIO') throw error;
    throw new RefusedEntryError(path, 'was replaced by a link or a special file while it was read');
  } finally {
    closeSync(directory.fd);
  }
}
