import type { StorageDriver } from '../contract.ts';
import { createVolumeDriver, type StorageDriverOptions } from '../volume-driver.ts';
import { copyVolumes } from './volumes.ts';

/** Volumes are directories; a clone copies every byte. Works anywhere and takes the time and space that it takes. */
export function createCopyDriver(options: StorageDriverOptions): Promise<StorageDriver> {
  return createVolumeDriver(copyVolumes, options);
}
