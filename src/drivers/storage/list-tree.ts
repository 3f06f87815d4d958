import { closeSync, fstatSync } from 'node:fs';
import type { VolumeEntry } from './contract.ts';
import { openFile } from './open-directory.ts';
import { openUnlessVanished, RefusedEntryError, walk } from './walk.ts';

export interface ListTree {
  readonly path: string;
}

/** Everything in a tree, synchronously: parents before what they hold, otherwise in the order of the directory. */
export function listTree({ path }: ListTree, checkpoint: () => void): VolumeEntry[] {
  const entries: VolumeEntry[] = [];
  walk(path, {
    checkpoint,
    directory: (entry, { fd }) => {
      entries.push({ path: entry.path, kind: 'directory', mode: fstatSync(fd).mode & 0o777, bytes: 0 });
      return true;
    },
    file: (entry) => {
      const fd = openUnlessVanished(() => openFile(entry.directory, entry.name), entry);
      if (fd === undefined) return;
      try {
        const stats = fstatSync(fd);
        if (!stats.isFile()) throw new RefusedEntryError(entry.path, 'was replaced while it was read');
        entries.push({ path: entry.path, kind: 'file', mode: stats.mode & 0o777, bytes: stats.size });
      } finally {
        closeSync(fd);
      }
    },
  });
  return entries;
}
