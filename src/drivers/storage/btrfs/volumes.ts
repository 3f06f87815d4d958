import { chmod } from 'node:fs/promises';
import { syncFilesystem } from '../durable.ts';
import { canReadExtents } from '../extents.ts';
import { runTreeJob } from '../tree-workers.ts';
import type { VolumeMechanics } from '../volume-driver.ts';
import { createSubvolume, snapshotSubvolume } from './subvolume.ts';

export async function btrfsVolumes(): Promise<VolumeMechanics> {
  const extents = await canReadExtents();
  return {
    name: 'btrfs',
    capabilities: { instant_clone: true, atomic_clone: true, unshared_bytes: extents },
    settles_changes: true,
    makeEmpty: async (path) => {
      await createSubvolume(path);
      await chmod(path, 0o700);
    },
    copy: async (source, path, selection, signal) => {
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
