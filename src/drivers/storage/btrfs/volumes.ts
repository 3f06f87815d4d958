import { chmod } from 'node:fs/promises';
import { syncFilesystem } from '../durable.ts';
import { canReadExtents } from '../extents.ts';
import { runTreeJob } from '../tree-workers.ts';
import type { VolumeMechanics } from '../volume-driver.ts';
import { createSubvolume, isSubvolume, snapshotSubvolume } from './subvolume.ts';

export async function btrfsVolumes(): Promise<VolumeMechanics> {
  const extents = await canReadExtents();
  return {
    name: 'btrfs',
    capabilities: { instant_clone: true, atomic_clone: true, unshared_bytes: extents },
    settles_changes: true,
    makeEmpty,
    copy: async (source, path, selection, signal) => {
      if (!(await isSubvolume(source))) {
        // In a data directory that was copied here, volumes are plain directories. What is made of them is not.
        await makeEmpty(path);
        await runTreeJob({ kind: 'clone', source, target: path, reflink: true, ...selection }, signal);
        await syncFilesystem(path);
        return;
      }
      await snapshotSubvolume(source, path);
      await runTreeJob({ kind: 'trim', path, ...selection }, signal);
    },
    bytesToClone: async () => 0,
    // Metadata is committed in whole transactions, and renaming a subvolume makes the next fsync of its directory
    // commit one: the new name and everything before it get to disk together, without the data of others.
    makeDurable: async (path, by_hand) => {
      if (by_hand) await syncFilesystem(path);
    },
    measure: async (path) => {
      const { logical_bytes, unshared_bytes } = await runTreeJob({ kind: 'measure', path, extents });
      return { logical_bytes, unshared_bytes };
    },
  };
}

async function makeEmpty(path: string): Promise<void> {
  await createSubvolume(path);
  await chmod(path, 0o700);
}
