import { sql } from 'kysely';
import type { BranchId, EndpointId, TimelineId } from '../domain/ids.ts';
import { oneOf } from './any-of.ts';
import type { Store } from './connection.ts';
import type { EndpointRow } from './schema.ts';

/** Read replicas: whom they follow, and what was seen of them. */

/** What a replica must know of its branch's read_write endpoint; undefined when there is none. */
export function findPrimary(
  store: Store,
  branch_id: BranchId,
): Promise<Pick<EndpointRow, 'id' | 'compute' | 'min_cu' | 'max_cu' | 'pg_settings'> | undefined> {
  return store
    .selectFrom('endpoints')
    .select(['id', 'compute', 'min_cu', 'max_cu', 'pg_settings'])
    .where('branch_id', '=', branch_id)
    .where('deleted_at', 'is', null)
    .where('type', 'in', oneOf(['read_write']))
    .executeTakeFirst();
}

/** The volume that a replica has now; undefined: it is none that may be used any more. */
export async function observeReplicaVolume(
  store: Store,
  id: EndpointId,
  made: { volume: { driver: string; id: string }; timeline_id: TimelineId } | undefined,
): Promise<void> {
  await store
    .updateTable('endpoints')
    .set({
      replica_volume: made ? JSON.stringify(made.volume) : null,
      replica_timeline_id: made?.timeline_id ?? null,
    })
    .where('id', '=', id)
    .execute();
}

/** How far a replica is behind. Written only when it changed, since every change of an endpoint is announced. */
export async function observeReplicaLag(
  store: Store,
  id: EndpointId,
  lag: { bytes: number; seconds: number },
): Promise<void> {
  await store
    .updateTable('endpoints')
    .set({ replica_lag_bytes: lag.bytes, replica_lag_seconds: lag.seconds })
    .where('id', '=', id)
    .where(
      sql<boolean>`(replica_lag_bytes, replica_lag_seconds) is distinct from (${lag.bytes}::bigint, ${lag.seconds}::float8)`,
    )
    .execute();
}
