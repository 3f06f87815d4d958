import { join } from 'node:path';
import { after, before, describe } from 'node:test';
import { createBtrfsDriver } from '../../src/drivers/storage/btrfs/driver.ts';
import type { StorageDriver } from '../../src/drivers/storage/contract.ts';
import { createCopyDriver } from '../../src/drivers/storage/copy/driver.ts';
import { createReflinkDriver } from '../../src/drivers/storage/reflink/driver.ts';
import { cannotMount, type FilesystemKind, mountFilesystem, type TestFilesystem } from './filesystem.ts';

export const STORAGE_DRIVERS = {
  btrfs: createBtrfsDriver,
  reflink: createReflinkDriver,
  copy: createCopyDriver,
} as const;

export type StorageDriverKind = keyof typeof STORAGE_DRIVERS;

const TARGETS: readonly (readonly [StorageDriverKind, FilesystemKind])[] = [
  ['reflink', 'xfs'],
  ['reflink', 'btrfs'],
  ['btrfs', 'btrfs'],
  ['copy', 'ext4'],
  ['copy', 'tmpfs'],
];

/** Two owners that no user of the machine has. */
export const OWNER = { uid: 71_001, gid: 71_001 };
export const OTHER_OWNER = { uid: 71_002, gid: 71_002 };

/** A driver on a filesystem of its own. */
export interface StorageTarget {
  readonly name: string;
  readonly kind: StorageDriverKind;
  readonly filesystem_kind: FilesystemKind;
  readonly filesystem: TestFilesystem;
  /** The driver's root. */
  readonly root: string;
  readonly driver: StorageDriver;
}

/**
 * Declares the same tests for every driver on every filesystem that it is for. `target()` may be called inside a
 * test. COPPICE_TEST_STORAGE (`reflink-xfs,copy-tmpfs`) runs a part of them.
 */
export function describeStorage(
  title: string,
  tests: (target: () => StorageTarget) => void,
  { size_bytes = 1024 ** 3, only = () => true }: { size_bytes?: number; only?: (name: string) => boolean } = {},
): void {
  const wanted = process.env.COPPICE_TEST_STORAGE?.split(',');
  for (const [kind, filesystem_kind] of TARGETS) {
    const name = `${kind}-${filesystem_kind}`;
    if (!only(name) || (wanted && !wanted.includes(name))) continue;
    describe(`${title}: ${name}`, { skip: cannotMount }, () => {
      let target: StorageTarget | undefined;
      before(async () => {
        const filesystem = await mountFilesystem(filesystem_kind, size_bytes);
        const root = join(filesystem.path, 'storage');
        const driver = await STORAGE_DRIVERS[kind]({ root, reserve_bytes: 0 });
        target = { name, kind, filesystem_kind, filesystem, root, driver };
      });
      after(() => target?.filesystem.remove());
      tests(() => target!);
    });
  }
}
