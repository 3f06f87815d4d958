import type { Store } from './connection.ts';

/** A pool with less room than it keeps in reserve, as last seen. */
export function findFullPool(store: Store): Promise<{ free_bytes: number; reserve_bytes: number } | undefined> {
  return store
    .selectFrom('storage_pools')
    .select(['free_bytes', 'reserve_bytes'])
    .whereRef('free_bytes', '<', 'reserve_bytes')
    .limit(1)
    .executeTakeFirst();
}
