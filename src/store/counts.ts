import { sql } from 'kysely';
import type { OperationAction, OperationStatus } from '../domain/operation-kinds.ts';
import { oneOf } from './any-of.ts';
import type { Store } from './connection.ts';

/** How much of everything there is, for people. */
export interface Counts {
  readonly projects: number;
  /** Those of which something is in object storage alone, since nobody uses them. */
  readonly projects_detached: number;
  readonly branches: number;
  readonly endpoints_active: number;
  readonly endpoints_idle: number;
  /** Snapshots that history is made of, and what only they hold on disk, as far as it was measured. */
  readonly snapshots: number;
  readonly snapshots_bytes: number;
  /** Read replicas that run, and how far those are behind that are furthest behind. */
  readonly replicas_active: number;
  readonly replica_lag_bytes_max: number;
  readonly replica_lag_seconds_max: number;
  readonly operations_unfinished: number;
  readonly operations_failed: number;
  /** What is known to be wrong with histories. */
  readonly history_damages: number;
}

export async function countEverything(store: Store): Promise<Counts> {
  const { rows } = await sql<Counts>`
    with lasting as (
      select endpoints.observed_state from endpoints join branches on branches.id = endpoints.branch_id
      where endpoints.deleted_at is null and branches.ephemeral_of is null
    )
    select
      (select count(*) from projects where deleted_at is null) as projects,
      (
        select count(distinct project_id) from timelines where detached_at is not null and deleted_at is null
      ) as projects_detached,
      (select count(*) from branches where deleted_at is null and ephemeral_of is null) as branches,
      (select count(*) from lasting where observed_state in ('running', 'stopping')) as endpoints_active,
      (select count(*) from lasting where observed_state in ('none', 'stopped')) as endpoints_idle,
      (select count(*) from timeline_snapshots where purged_at is null and volume is not null) as snapshots,
      (select coalesce(sum(unshared_size_bytes), 0)::bigint from timeline_snapshots where purged_at is null) as snapshots_bytes,
      (select count(*) from operations where status in ('scheduling', 'running', 'cancelling')) as operations_unfinished,
      (select count(*) from operations where status = 'failed' and finished_at > now() - interval '1 day') as operations_failed,
      (select count(*) from history_damages where resolved_at is null) as history_damages,
      replicas.*
    from (
      select count(*) as replicas_active, coalesce(max(replica_lag_bytes), 0) as replica_lag_bytes_max,
        coalesce(max(replica_lag_seconds), 0) as replica_lag_seconds_max
      from endpoints where deleted_at is null and type = 'read_only' and observed_state in ('running', 'stopping')
    ) replicas`.execute(store);
  return rows[0]!;
}

/** How many operations have not ended, by what they do. */
export async function countUnfinishedOperations(
  store: Store,
): Promise<{ action: OperationAction; status: OperationStatus; count: number }[]> {
  return store
    .selectFrom('operations')
    .select(['action', 'status', (eb) => eb.fn.countAll<number>().as('count')])
    .where('status', 'in', oneOf(['scheduling', 'running', 'cancelling']))
    .groupBy(['action', 'status'])
    .execute();
}

/** The storage pool as it was last seen. */
export function findPool(
  store: Store,
): Promise<{ driver: string; free_bytes: number; total_bytes: number } | undefined> {
  return store
    .selectFrom('storage_pools')
    .select(['driver', 'free_bytes', 'total_bytes'])
    .where('name', '=', 'default')
    .executeTakeFirst();
}
