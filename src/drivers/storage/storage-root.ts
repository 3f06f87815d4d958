import { join } from 'node:path';
import { poolStatus } from './pool.ts';
import { PoolError } from './pool-error.ts';

/** Where volumes lie on a machine without a pool. */
export const plainStorageRoot = (data_directory: string): string => join(data_directory, 'storage');

/** The root for a storage driver. Throws when there is a pool that is not mounted, since volumes would then be hidden or made elsewhere. */
export async function resolveStorageRoot(data_directory: string): Promise<string> {
  const pool = await poolStatus(data_directory);
  if (!pool) return plainStorageRoot(data_directory);
  if (!pool.mounted)
    throw new PoolError(`the pool ${pool.image} is not mounted at ${pool.mount}: start Coppice as root`);
  return pool.mount;
}
