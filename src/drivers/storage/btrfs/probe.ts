import { mkdtemp } from 'node:fs/promises';
import { join } from 'node:path';
import { filesystemType } from '../filesystem-type.ts';
import { removeTree } from '../remove-tree.ts';
import { createSubvolume, snapshotSubvolume } from './subvolume.ts';

/** Why volumes below an existing directory cannot be Btrfs subvolumes; undefined when they can. Tries it. */
export async function btrfsProblem(root: string): Promise<string | undefined> {
  if ((await filesystemType(root)) !== 'btrfs') return `${root} is not on Btrfs`;
  const directory = await mkdtemp(join(root, '.probe-'));
  try {
    await createSubvolume(join(directory, 'source'));
    await snapshotSubvolume(join(directory, 'source'), join(directory, 'target'));
    await removeTree(directory);
    return undefined;
  } catch (error) {
    return (error as Error).message;
  } finally {
    await removeTree(directory);
  }
}
