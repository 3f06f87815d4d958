import { closeSync, constants, existsSync, openSync } from 'node:fs';
import { join } from 'node:path';

/**
 * Safe steps through a tree that someone hostile can change at the same time. Node has no openat(2), but on Linux
 * `/proc/self/fd/<n>/<name>` means the same: the directory is the one that was opened, whatever its old path says now, and
 * O_NOFOLLOW guards the last component. Elsewhere plain paths are used: there everything runs as one user, so that a
 * tenant who swaps a directory for a link gains nothing.
 */
export interface OpenDirectory {
  readonly fd: number;
  /** A path that reaches this very directory. */
  readonly path: string;
}

const DESCRIPTORS = process.platform === 'linux' ? '/proc/self/fd' : undefined;

/** A path that reaches the opened file, to hand to calls that take no descriptor. `path` is where it was opened. */
export function descriptorPath(fd: number, path: string): string {
  return DESCRIPTORS ? `${DESCRIPTORS}/${fd}` : path;
}

/** Opens a directory, refusing a symbolic link in the last component (ELOOP or ENOTDIR). The caller closes it. */
export function openDirectory(path: string): OpenDirectory {
  const fd = openSync(path, constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW);
  const reached = descriptorPath(fd, path);
  // Without /proc every file would look as if it had just vanished, and a copy would come out empty.
  if (!existsSync(reached)) {
    closeSync(fd);
    throw new Error(`${DESCRIPTORS} is not available: mount /proc to work on volumes`);
  }
  return { fd, path: reached };
}

/** Opens a file for reading without following a link and without waiting for the other end of a pipe. */
export function openFile(directory: OpenDirectory, name: string): number {
  return openSync(join(directory.path, name), constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
}
