import { mkdir } from 'node:fs/promises';
import { syncDirectory, syncFilesystem } from '../durable.ts';
import { canReadExtents } from '../extents.ts';
import { filesystemType } from '../filesystem-type.ts';
import { runTreeJob } from '../tree-workers.ts';
import type { VolumeMechanics } from '../volume-driver.ts';

/** @param root an existing directory */
export async function reflinkVolumes(root: string): Promise<VolumeMechanics> {
  // XFS writes changed metadata to one log in order, and sharing a file's blocks first writes them: once the last
  // change is on disk, so is the whole copy. Elsewhere nothing short of the whole filesystem is certain.
  const ordered_log = (await filesystemType(root)) === 'xfs';
  const extents = await canReadExtents();
  return {
    name: 'reflink',
    capabilities: { instant_clone: true, atomic_clone: false, unshared_bytes: extents },
    settles_changes: ordered_log,
    makeEmpty: (path) => mkdir(path, { mode: 0o700 }),
    copy: async (source, path, selection, signal) => {
      await mkdir(path, { mode: 0o700 });
      await runTreeJob({ kind: 'clone', source, target: path, reflink: true, ...selection }, signal);
    },
    bytesToClone: async () => 0,
    makeDurable: (path, by_hand) => (ordered_log && !by_hand ? syncDirectory(path) : syncFilesystem(path)),
    measure: async (path) => {
      const { logical_bytes, unshared_bytes } = await runTreeJob({ kind: 'measure', path, extents });
      return { logical_bytes, unshared_bytes };
    },
  };
}
