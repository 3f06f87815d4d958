import { chmodSync, chownSync, closeSync, fstatSync, fsyncSync, lchownSync, lstatSync, type Stats } from 'node:fs';
import { join } from 'node:path';
import type { VolumeOwner } from './contract.ts';
import { openFile } from './open-directory.ts';
import { walk } from './walk.ts';

export interface SettleTree {
  readonly path: string;
  readonly owner?: VolumeOwner;
  /** By the filesystem's clock: the contents of files changed since then are made durable. Otherwise the caller does it. */
  readonly changed_since_ms?: number;
}

/**
 * Last pass over an unfinished volume that nobody else can enter: everything in it belongs to `owner`, links and special
 * files are refused, and the directory itself is handed over last, with mode 0700.
 */
export function settleTree({ path, owner, changed_since_ms = Infinity }: SettleTree, checkpoint: () => void): void {
  walk(path, {
    checkpoint,
    directory: ({ directory, name }, { fd }) => {
      own(join(directory.path, name), fstatSync(fd), owner);
      return true;
    },
    file: (entry) => {
      const file = join(entry.directory.path, entry.name);
      const stats = lstatSync(file);
      own(file, stats, owner);
      if (stats.ctimeMs < changed_since_ms) return;
      const fd = openFile(entry.directory, entry.name);
      try {
        fsyncSync(fd);
      } finally {
        closeSync(fd);
      }
    },
  });
  chmodSync(path, 0o700);
  if (owner) chownSync(path, owner.uid, owner.gid);
}

function own(path: string, stats: Stats, owner: VolumeOwner | undefined): void {
  if (owner && (stats.uid !== owner.uid || stats.gid !== owner.gid)) lchownSync(path, owner.uid, owner.gid);
}
