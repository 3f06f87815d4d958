import { chmodSync, closeSync, constants, copyFileSync, fstatSync, linkSync, mkdirSync, type Stats } from 'node:fs';
import { join } from 'node:path';
import { copyContents } from './copy-contents.ts';
import { descriptorPath, openFile } from './open-directory.ts';
import { type Entry, openUnlessVanished, RefusedEntryError, walk } from './walk.ts';

export interface TreeSelection {
  /** As `CloneOptions.empty_directories`. */
  readonly empty_directories: readonly string[];
  /** As `CloneOptions.omit_files`. */
  readonly omit_files: readonly string[];
}

export interface CloneTree extends TreeSelection {
  readonly source: string;
  /** An empty directory that only we can enter. */
  readonly target: string;
  /** Share the blocks of each file, and fail where that is not possible; otherwise copy the bytes. */
  readonly reflink: boolean;
}

/**
 * Copies a tree, synchronously: names, contents, modes, hard links and holes, not owners. The source may be in use and
 * hostile: a file that vanishes is left out, one that is written is as it was at some moment or torn, links and
 * special files are refused.
 */
export function cloneTree({ source, target, reflink, ...selection }: CloneTree, checkpoint: () => void): void {
  const empty = new Set(selection.empty_directories);
  const omitted = new Set(selection.omit_files);
  const linked = new Map<bigint, string>();
  walk(source, {
    checkpoint,
    omits: ({ path }) => omitted.has(path),
    directory: ({ path }, { fd }) => {
      const made = join(target, path);
      mkdirSync(made, { mode: 0o700 });
      // The search bit stays for us; the process's umask must not change what the source says.
      chmodSync(made, (fstatSync(fd).mode & 0o777) | 0o700);
      return !empty.has(path);
    },
    file: (entry) => cloneFile(entry, join(target, entry.path), reflink, linked, checkpoint),
  });
  for (const path of empty) mkdirSync(join(target, path), { recursive: true, mode: 0o700 });
}

function cloneFile(
  entry: Entry,
  target: string,
  reflink: boolean,
  linked: Map<bigint, string>,
  checkpoint: () => void,
): void {
  const fd = openUnlessVanished(() => openFile(entry.directory, entry.name), entry);
  if (fd === undefined) return;
  try {
    const stats = fstatSync(fd);
    if (!stats.isFile()) throw new RefusedEntryError(entry.path, 'was replaced while it was read');
    if (stats.nlink > 1 && linkAgain(fd, target, linked)) return;
    if (reflink) shareBlocks(fd, entry, target, stats);
    else copyContents(fd, target, stats, checkpoint);
  } finally {
    closeSync(fd);
  }
}

/** True when another name of the same file was copied before: the copy gets the same second name. */
function linkAgain(fd: number, target: string, linked: Map<bigint, string>): boolean {
  const { ino } = fstatSync(fd, { bigint: true });
  const first = linked.get(ino);
  if (first === undefined) {
    linked.set(ino, target);
    return false;
  }
  linkSync(first, target);
  return true;
}

function shareBlocks(fd: number, { directory, name }: Entry, target: string, stats: Stats): void {
  // Reached through the descriptor, so that it is the file that was looked at.
  const source = descriptorPath(fd, join(directory.path, name));
  copyFileSync(source, target, constants.COPYFILE_EXCL | constants.COPYFILE_FICLONE_FORCE);
  if (stats.mode & 0o7000) chmodSync(target, stats.mode & 0o777);
}
