import { stat } from 'node:fs/promises';
import { createPool, type PoolOptions } from '../drivers/storage/create-pool.ts';
import { poolStatus, requireRoot, unmountPool } from '../drivers/storage/pool.ts';
import { plainStorageRoot } from '../drivers/storage/storage-root.ts';
import { chooseStorage } from './choose-storage.ts';
import { openDataDirectory } from './data-directory.ts';
import { isTemplate } from './templates.ts';

/**
 * Makes a pool for a data directory that no Coppice uses; returns where it is mounted. Templates that were made beside it
 * are removed, and made again on it by the next start. Throws StartError and PoolError.
 */
export async function makePool(options: PoolOptions): Promise<string> {
  requireRoot('create a pool');
  const directory = await openDataDirectory(options.data_directory);
  try {
    if (!(await poolStatus(directory.path))) await removeTemplates(plainStorageRoot(directory.path));
    return await createPool({ ...options, data_directory: directory.path });
  } finally {
    await directory.release();
  }
}

/** Takes the pool of a data directory out of use, which no Coppice uses. Throws StartError and CommandError. */
export async function releasePool(data_directory: string): Promise<void> {
  if (!(await poolStatus(data_directory))) return;
  const directory = await openDataDirectory(data_directory);
  await unmountPool(directory.path).finally(() => directory.release());
}

/** Nothing is removed where there are projects, which stay where they are. */
async function removeTemplates(root: string): Promise<void> {
  if (!(await stat(root).catch(() => undefined))) return;
  const { driver } = await chooseStorage({ root, reserve_bytes: 0 });
  const volumes = await driver.list();
  if (!volumes.every(isTemplate)) return;
  for (const id of volumes) await driver.ensureDeleted(id);
}
