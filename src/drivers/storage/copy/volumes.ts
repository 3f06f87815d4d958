import { mkdir } from 'node:fs/promises';
import { syncFilesystem } from '../durable.ts';
import { runTreeJob } from '../tree-workers.ts';
import type { VolumeMechanics } from '../volume-driver.ts';

export async function copyVolumes(): Promise<VolumeMechanics> {
  const sizeOf = (path: string) => runTreeJob({ kind: 'measure', path, extents: false });
  return {
    name: 'copy',
    capabilities: { instant_clone: false, atomic_clone: false, unshared_bytes: true },
    settles_changes: false,
    makeEmpty: (path) => mkdir(path, { mode: 0o700 }),
    copy: async (source, path, selection, signal) => {
      await mkdir(path, { mode: 0o700 });
      await runTreeJob({ kind: 'clone', source, target: path, reflink: false, ...selection }, signal);
    },
    bytesToClone: async (source) => (await sizeOf(source)).allocated_bytes,
    makeDurable: syncFilesystem,
    measure: async (path) => {
      const { logical_bytes, allocated_bytes } = await sizeOf(path);
      return { logical_bytes, unshared_bytes: allocated_bytes };
    },
  };
}
