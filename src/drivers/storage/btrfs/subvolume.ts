import { runCommand } from '../command.ts';

const TIMEOUT_MS = 300_000;

const btrfs = (...args: string[]) => runCommand('btrfs', ['subvolume', ...args], { timeout_ms: TIMEOUT_MS });

/** Removed like a directory: `btrfs subvolume delete` is quicker, but gives the space back half a minute later. */
export async function createSubvolume(path: string): Promise<void> {
  await btrfs('create', path);
}

/** Writable, and on disk when this returns. `target` does not exist yet. */
export async function snapshotSubvolume(source: string, target: string): Promise<void> {
  await btrfs('snapshot', source, target);
}
