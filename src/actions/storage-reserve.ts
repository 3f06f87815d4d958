import { CoppiceError } from '../domain/errors.ts';
import { findFullPool } from '../store/storage-pools.ts';
import type { ActionContext } from './context.ts';

/** Refuses what would need room while a storage pool is down to its reserve, rather than have its servers run out. */
export async function requireStorage({ store }: ActionContext, noun: string): Promise<void> {
  const pool = await findFullPool(store);
  if (!pool) return;
  throw new CoppiceError('storage_full', { noun, free_bytes: pool.free_bytes, reserve_bytes: pool.reserve_bytes });
}
