import type { StorageDriver } from '../contract.ts';
import { createVolumeDriver, type StorageDriverOptions } from '../volume-driver.ts';
import { reflinkVolumes } from './volumes.ts';

/** Volumes are directories; a clone shares the blocks of every file (XFS, Btrfs, APFS). */
export function createReflinkDriver(options: StorageDriverOptions): Promise<StorageDriver> {
  return createVolumeDriver(reflinkVolumes, options);
}
