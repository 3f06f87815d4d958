import type { StorageDriver } from '../contract.ts';
import { createVolumeDriver, type StorageDriverOptions } from '../volume-driver.ts';
import { btrfsVolumes } from './volumes.ts';

/** Volumes are Btrfs subvolumes; a clone is a snapshot, and so one moment of a volume that is being written. */
export function createBtrfsDriver(options: StorageDriverOptions): Promise<StorageDriver> {
  return createVolumeDriver(btrfsVolumes, options);
}
