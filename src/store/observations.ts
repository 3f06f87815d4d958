import { sql } from 'kysely';
import type { BranchId, EndpointId, ProjectId, TimelineId } from '../domain/ids.ts';
import { oneOf } from './any-of.ts';
import type { Store } from './connection.ts';
import type { EndpointRow, ProjectRow, TimelineRow } from './schema.ts';

/** What drivers saw, written by the engine alone. */

export async function observeTimelineReady(
  store: Store,
  id: TimelineId,
  seen: {
    volume: { driver: string; id: string };
    system_identifier: string;
    /** Where its history begins, if it has one. */
    birth?: { lsn: string; at: Date };
  },
): Promise<void> {
  await store
    .updateTable('timelines')
    .set({
      volume: JSON.stringify(seen.volume),
      system_identifier: seen.system_identifier,
      birth_lsn: seen.birth?.lsn,
      birth_at: seen.birth?.at,
      ready_at: sql<Date>`coalesce(ready_at, clock_timestamp())`,
    })
    .where('id', '=', id)
    .execute();
}

export async function observeTimelinePurged(store: Store, id: TimelineId): Promise<void> {
  await store
    .updateTable('timelines')
    .set({ volume: null, purged_at: sql<Date>`clock_timestamp()` })
    .where('id', '=', id)
    .execute();
}

export async function observeTimelineSize(
  store: Store,
  id: TimelineId,
  size: { logical_bytes: number; unshared_bytes?: number } | undefined,
): Promise<void> {
  const sizes = size && { logical_size_bytes: size.logical_bytes, unshared_size_bytes: size.unshared_bytes ?? null };
  await store
    .updateTable('timelines')
    .set({
      ...sizes,
      measured_at: sql<Date>`clock_timestamp()`,
    })
    .where('id', '=', id)
    .execute();
}

/** The point of its parent that a branch begins at; a root branch has none. */
export async function observeBranchPoint(
  store: Store,
  id: BranchId,
  point: { lsn: string; timestamp: Date },
): Promise<void> {
  await store
    .updateTable('branches')
    .set({ parent_lsn: point.lsn, parent_timestamp: point.timestamp })
    .where('id', '=', id)
    .where('parent_id', 'is not', null)
    .execute();
}

export async function observeConfigApplied(store: Store, id: TimelineId, generation: number): Promise<void> {
  await store.updateTable('timelines').set({ applied_config_generation: generation }).where('id', '=', id).execute();
}

/** From now on something of the endpoint may be on a machine: a server of this timeline, when one runs. */
export async function observeEndpointPlaced(
  store: Store,
  id: EndpointId,
  { compute, timeline_id }: { compute: { driver: string; id: string }; timeline_id: TimelineId },
): Promise<void> {
  await store
    .updateTable('endpoints')
    .set({ compute: JSON.stringify(compute), serves_timeline_id: timeline_id, removed_at: null })
    .where('id', '=', id)
    .execute();
}

export async function observeEndpointRunning(
  store: Store,
  id: EndpointId,
  seen: { started_at: Date; spec_hash: string | null; current_cu: number },
): Promise<void> {
  await store
    .updateTable('endpoints')
    .set({
      observed_state: 'running',
      started_at: seen.started_at,
      spec_hash: seen.spec_hash,
      current_cu: seen.current_cu,
      last_active_at: sql<Date>`clock_timestamp()`,
      suspended_at: null,
    })
    .where('id', '=', id)
    .execute();
}

/** The running server was told what it should be. */
export async function observeEndpointConfigured(store: Store, id: EndpointId, spec_hash: string): Promise<void> {
  await store.updateTable('endpoints').set({ spec_hash }).where('id', '=', id).execute();
}

/** The endpoint is about to stop, or after all is not: the gateway holds connections while it stops. */
export async function observeEndpointStopping(store: Store, id: EndpointId, stopping: boolean): Promise<void> {
  await store
    .updateTable('endpoints')
    .set({ observed_state: stopping ? 'stopping' : 'running' })
    .where('id', '=', id)
    .where('observed_state', 'in', oneOf(['running', 'stopping']))
    .execute();
}

export async function observeEndpointStopped(store: Store, id: EndpointId): Promise<void> {
  await store
    .updateTable('endpoints')
    .set({ observed_state: 'stopped', suspended_at: sql<Date>`clock_timestamp()`, current_cu: null })
    .where('id', '=', id)
    .where('observed_state', '<>', 'none')
    .execute();
}

export async function observeEndpointRemoved(store: Store, id: EndpointId): Promise<void> {
  await store
    .updateTable('endpoints')
    .set({ compute: null, removed_at: sql<Date>`clock_timestamp()` })
    .where('id', '=', id)
    .execute();
}

/** The server ended by itself. Returns how often it did since it last ran well. */
export async function observeEndpointCrashed(store: Store, id: EndpointId): Promise<number> {
  const row = await store
    .updateTable('endpoints')
    .set((eb) => ({
      observed_state: 'stopped',
      suspended_at: sql<Date>`clock_timestamp()`,
      crashes: eb('crashes', '+', 1),
    }))
    .where('id', '=', id)
    .returning('crashes')
    .executeTakeFirst();
  return row?.crashes ?? 0;
}

export async function observeEndpointSteady(store: Store, id: EndpointId): Promise<void> {
  await store.updateTable('endpoints').set({ crashes: 0 }).where('id', '=', id).where('crashes', '>', 0).execute();
}

export async function observeEndpointActive(store: Store, id: EndpointId, last_active_at: Date): Promise<void> {
  await store
    .updateTable('endpoints')
    .set({ last_active_at })
    .where('id', '=', id)
    .where((eb) => eb.or([eb('last_active_at', 'is', null), eb('last_active_at', '<', last_active_at)]))
    .execute();
}

export async function observeRetentionApplied(store: Store, id: ProjectId, seconds: number): Promise<void> {
  await store
    .updateTable('projects')
    .set({ applied_history_retention_seconds: seconds })
    .where('id', '=', id)
    .execute();
}

export async function observeProjectPurged(store: Store, id: ProjectId): Promise<void> {
  await store.updateTable('projects').set({ purged_at: sql<Date>`clock_timestamp()` }).where('id', '=', id).execute();
}

export async function observePool(
  store: Store,
  pool: { driver: string; path: string; total_bytes: number; free_bytes: number; reserve_bytes: number },
): Promise<void> {
  const row = { ...pool, observed_at: sql<Date>`clock_timestamp()` };
  await store
    .insertInto('storage_pools')
    .values({ name: 'default', ...row })
    .onConflict((conflict) => conflict.column('name').doUpdateSet(row))
    .execute();
}

/** Everything that running an endpoint's compute depends on: intent, and what was observed. */
export type EndpointFacts = NonNullable<Awaited<ReturnType<typeof findEndpointFacts>>>;

/** The endpoint with what it belongs to, deleted or not; undefined when there never was one. */
export function findEndpointFacts(store: Store, id: EndpointId) {
  return store
    .selectFrom('endpoints')
    .innerJoin('branches', 'branches.id', 'endpoints.branch_id')
    .innerJoin('timelines', 'timelines.id', 'branches.timeline_id')
    .innerJoin('projects', 'projects.id', 'endpoints.project_id')
    .select([
      'endpoints.id',
      'endpoints.project_id',
      'endpoints.branch_id',
      'endpoints.type',
      'endpoints.min_cu',
      'endpoints.max_cu',
      'endpoints.pg_settings',
      'endpoints.suspend_timeout_seconds',
      'endpoints.disabled',
      'endpoints.deleted_at',
      'endpoints.observed_state',
      'endpoints.compute',
      'endpoints.serves_timeline_id',
      'endpoints.spec_hash',
      'endpoints.started_at',
      'endpoints.replica_volume',
      'endpoints.replica_timeline_id',
      'branches.timeline_id',
      'branches.ephemeral_of',
      'branches.config_generation',
      'timelines.parent_id as timeline_parent_id',
      'timelines.volume',
      'timelines.distribution_id',
      'timelines.applied_config_generation',
      'projects.uid',
      'projects.settings as project_settings',
      'projects.history_retention_seconds',
    ])
    .where('endpoints.id', '=', id)
    .executeTakeFirst();
}

export function findTimeline(store: Store, id: TimelineId): Promise<TimelineRow | undefined> {
  return store.selectFrom('timelines').selectAll().where('id', '=', id).executeTakeFirst();
}

export function findProject(store: Store, id: ProjectId): Promise<ProjectRow | undefined> {
  return store.selectFrom('projects').selectAll().where('id', '=', id).executeTakeFirst();
}

/** Endpoints whose compute may have something on this machine: those that write to a timeline, of a project, or all. */
export function findPlacedEndpoints(
  store: Store,
  scope: { timeline_id?: TimelineId; project_id?: ProjectId } = {},
): Promise<EndpointRow[]> {
  let query = store.selectFrom('endpoints').selectAll().where('compute', 'is not', null);
  if (scope.timeline_id) {
    query = query.where('serves_timeline_id', '=', scope.timeline_id).where('type', 'in', oneOf(['read_write']));
  }
  if (scope.project_id) query = query.where('project_id', '=', scope.project_id);
  return query.execute();
}

/** Read replicas whose compute or volume may be on this machine, and which follow a timeline. */
export function findPlacedReplicas(store: Store, timeline_id: TimelineId): Promise<EndpointRow[]> {
  return store
    .selectFrom('endpoints')
    .selectAll()
    .where('compute', 'is not', null)
    .where('type', 'in', oneOf(['read_only']))
    .where('serves_timeline_id', '=', timeline_id)
    .execute();
}

/** Endpoints last seen with a running server. */
export function findRunningEndpoints(store: Store): Promise<EndpointRow[]> {
  return store
    .selectFrom('endpoints')
    .selectAll()
    .where('observed_state', 'in', oneOf(['running', 'stopping']))
    .execute();
}

/** Timelines of a project whose volume may be left. */
export function findUnpurgedTimelines(store: Store, project_id: ProjectId): Promise<TimelineRow[]> {
  return store
    .selectFrom('timelines')
    .selectAll()
    .where('project_id', '=', project_id)
    .where('purged_at', 'is', null)
    .execute();
}

/** Timelines without a size, or used since it was measured more than five minutes ago. */
export async function findTimelinesToMeasure(
  store: Store,
): Promise<{ id: TimelineId; volume: { driver: string; id: string } | null }[]> {
  const { rows } = await sql<{ id: TimelineId; volume: { driver: string; id: string } | null }>`
    select timelines.id, timelines.volume from timelines
    where ready_at is not null and purged_at is null and deleted_at is null
      and (measured_at is null or measured_at < now() - interval '5 minutes' and exists (
        select from branches join endpoints on endpoints.branch_id = branches.id
        where branches.timeline_id = timelines.id and endpoints.last_active_at > timelines.measured_at
      ))
    order by measured_at nulls first limit 4`.execute(store);
  return rows;
}
