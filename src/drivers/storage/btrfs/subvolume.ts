import { CommandError, runCommand } from '../command.ts';

const TIMEOUT_MS = 300_000;

const btrfs = (...args: string[]) => runCommand('btrfs', ['subvolume', ...args], { timeout_ms: TIMEOUT_MS });

export async function createSubvolume(path: string): Promise<void> {
  await btrfs('create', path);
}

/** Writable, and on disk when this returns. `target` does not exist yet. */
export async function snapshotSubvolume(source: string, target: string): Promise<void> {
  await btrfs('snapshot', source, target);
}

/** False when Btrfs refuses, as for a plain directory or a subvolume that holds another. */
export async function deleteSubvolume(path: string): Promise<boolean> {
  try {
    await btrfs('delete', path);
    return true;
  } catch (error) {
    if (error instanceof CommandError) return false;
    throw error;
  }
}
