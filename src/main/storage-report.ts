import { stat } from 'node:fs/promises';
import type { PoolReport } from '../cli/pool.ts';
import { poolStatus } from '../drivers/storage/pool.ts';
import { defaultReserveBytes, poolState } from '../drivers/storage/space.ts';
import { plainStorageRoot } from '../drivers/storage/storage-root.ts';
import { chooseStorage } from './choose-storage.ts';

/** What `coppice pool status` shows. Changes nothing but a probe that it removes again. */
export async function reportStorage(data_directory: string): Promise<PoolReport> {
  const pool = await poolStatus(data_directory);
  const path = pool?.mount ?? plainStorageRoot(data_directory);
  const used = pool ? pool.mounted : await isDirectory(path);
  if (!used) return { path, pool };
  const { total_bytes, free_bytes } = await poolState(path, 0);
  const reserve_bytes = defaultReserveBytes(total_bytes);
  const { driver, passed_over } = await chooseStorage({ root: path, reserve_bytes });
  const volumes = (await driver.list()).length;
  return { path, pool, state: { driver: driver.name, passed_over, total_bytes, free_bytes, reserve_bytes, volumes } };
}

async function isDirectory(path: string): Promise<boolean> {
  return stat(path).then(
    (stats) => stats.isDirectory(),
    () => false,
  );
}
