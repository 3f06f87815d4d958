import { lstat } from 'node:fs/promises';
import { runCommand } from '../command.ts';

const TIMEOUT_MS = 300_000;
/** `BTRFS_FIRST_FREE_OBJECTID`: the inode of a subvolume's own directory, and of no other. */
const ROOT_INODE = 256;

const btrfs = (...args: string[]) => runCommand('btrfs', ['subvolume', ...args], { timeout_ms: TIMEOUT_MS });

/** Removed like a directory: `btrfs subvolume delete` is quicker, but gives the space back half a minute later. */
export async function createSubvolume(path: string): Promise<void> {
  await btrfs('create', path);
}

/** Of a directory on Btrfs. */
export async function isSubvolume(path: string): Promise<boolean> {
  return (await lstat(path)).ino === ROOT_INODE;
}

/** Writable, and on disk when this returns. `target` does not exist yet. */
export async function snapshotSubvolume(source: string, target: string): Promise<void> {
  await btrfs('snapshot', source, target);
}
