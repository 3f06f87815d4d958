import { mkdtemp, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { filesystemType } from '../filesystem-type.ts';
import { createSubvolume, deleteSubvolume, snapshotSubvolume } from './subvolume.ts';

/** Why volumes below an existing directory cannot be Btrfs subvolumes; undefined when they can. Tries it. */
export async function btrfsProblem(root: string): Promise<string | undefined> {
  if ((await filesystemType(root)) !== 'btrfs') return `${root} is not on Btrfs`;
  const directory = await mkdtemp(join(root, '.probe-'));
  const names = [join(directory, 'source'), join(directory, 'target')] as const;
  try {
    await createSubvolume(names[0]);
    await snapshotSubvolume(...names);
    for (const name of names) {
      if (!(await deleteSubvolume(name))) return `subvolumes at ${root} cannot be deleted by this user`;
    }
    return undefined;
  } catch (error) {
    return (error as Error).message;
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}
