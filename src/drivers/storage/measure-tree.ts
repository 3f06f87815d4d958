import { closeSync, fstatSync } from 'node:fs';
import { UnsharedBytes } from './extents.ts';
import { openFile } from './open-directory.ts';
import { openUnlessVanished, walk } from './walk.ts';

export interface MeasureTree {
  readonly path: string;
  /** Also ask the filesystem which extents are shared. */
  readonly extents: boolean;
}

export interface TreeSize {
  readonly logical_bytes: number;
  /** On disk, whoever shares it. */
  readonly allocated_bytes: number;
  /** Undefined when not asked for, or when the answer takes longer than is sensible. */
  readonly unshared_bytes?: number;
}

const BLOCK_BYTES = 512;

/** Adds up the files of a tree that may be in use, synchronously. What is no regular file is passed over. */
export function measureTree({ path, extents }: MeasureTree, checkpoint: () => void): TreeSize {
  const size = { logical_bytes: 0, allocated_bytes: 0 };
  const unshared = extents ? new UnsharedBytes() : undefined;
  try {
    walk(path, {
      checkpoint,
      directory: () => true,
      other: () => {},
      file: (entry) => {
        const fd = openUnlessVanished(() => openFile(entry.directory, entry.name), entry);
        if (fd === undefined) return;
        const stats = fstatSync(fd);
        size.logical_bytes += stats.size;
        size.allocated_bytes += stats.blocks * BLOCK_BYTES;
        if (unshared && stats.blocks > 0) unshared.add(fd);
        else closeSync(fd);
      },
    });
    return { ...size, unshared_bytes: unshared?.total() };
  } finally {
    unshared?.[Symbol.dispose]();
  }
}
