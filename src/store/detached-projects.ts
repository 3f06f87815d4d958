import { sql } from 'kysely';
import type { BranchId, ProjectId, TimelineId } from '../domain/ids.ts';
import { UNFINISHED_STATUSES } from '../domain/operation-kinds.ts';
import { oneOf } from './any-of.ts';
import type { Store, StoreTransaction } from './connection.ts';
import type { TimelineRow } from './schema.ts';

/**
 * Projects whose volumes are in object storage alone, since nobody has used them for long. There is no mark on the project: it
 * is detached as far as its timelines are.
 */

const UNFINISHED = sql.join(oneOf(UNFINISHED_STATUSES));

/** Of rows of `projects`: no server runs for it, nothing passes or is half-way, and no schedule would bring it back. */
const MAY_BE_DETACHED = sql<boolean>`(
  projects.deleted_at is null
  and exists (
    select from timelines where timelines.project_id = projects.id and timelines.purged_at is null
      and timelines.deleted_at is null and timelines.volume is not null
  )
  and not exists (
    select from endpoints where endpoints.project_id = projects.id and endpoints.observed_state in ('running', 'stopping')
  )
  and not exists (
    select from branches where branches.project_id = projects.id and branches.deleted_at is null
      and (branches.ephemeral_of is not null or branches.previous_timeline_id is not null)
  )
  and not exists (
    select from backup_schedules join branches on branches.id = backup_schedules.branch_id
    where branches.project_id = projects.id and branches.deleted_at is null
  )
)`;

/** Projects that may be detached: nobody has touched anything of them since a time, and nothing is under way. */
export async function findUnusedProjects(
  store: Store,
  { untouched_since, id }: { untouched_since: Date; id?: ProjectId },
): Promise<{ id: ProjectId }[]> {
  const { rows } = await sql<{ id: ProjectId }>`
    select projects.id from projects
    where (${id ?? null}::text is null or projects.id = ${id ?? null})
      and ${MAY_BE_DETACHED}
      and greatest(projects.created_at, projects.updated_at) < ${untouched_since}
      and not exists (
        select from branches where branches.project_id = projects.id
          and greatest(created_at, updated_at, last_reset_at, deleted_at) >= ${untouched_since}
      )
      and not exists (
        select from timelines where timelines.project_id = projects.id
          and greatest(created_at, ready_at, unarchived_at, reattached_at, deleted_at) >= ${untouched_since}
      )
      and not exists (
        select from endpoints where endpoints.project_id = projects.id
          and greatest(created_at, updated_at, last_active_at, suspended_at) >= ${untouched_since}
      )
      and not exists (select from calls where calls.project_id = projects.id and calls.finished_at is null)
      and not exists (
        select from operations where operations.project_id = projects.id
          and operations.created_at > now() - interval '1 hour'
          and operations.action = 'tenant_detach' and operations.status = 'failed'
      )
    limit 100`.execute(store);
  return rows;
}

/** Whether a project whose claim the caller holds may still be detached. */
export async function mayBeDetached(store: Store, id: ProjectId): Promise<boolean> {
  const { rows } = await sql`select from projects where projects.id = ${id} and ${MAY_BE_DETACHED}`.execute(store);
  return rows.length === 1;
}

/** What of a project has its volume on this machine, of branches and of snapshots alike. */
export async function findLocalTimelines(
  store: Store,
  project_id: ProjectId,
): Promise<(TimelineRow & { readonly volume: NonNullable<TimelineRow['volume']> })[]> {
  const rows = await store
    .selectFrom('timelines')
    .selectAll()
    .where('project_id', '=', project_id)
    .where('purged_at', 'is', null)
    .where('deleted_at', 'is', null)
    .where('volume', 'is not', null)
    .execute();
  return rows.map(({ volume, ...row }) => ({ ...row, volume: volume! }));
}

/** What of a project is in object storage with it, parents before what was made of them. */
export function findDetachedTimelines(store: Store, project_id: ProjectId): Promise<TimelineRow[]> {
  return store
    .selectFrom('timelines')
    .selectAll()
    .where('project_id', '=', project_id)
    .where('detached_at', 'is not', null)
    .where('deleted_at', 'is', null)
    .orderBy('created_at')
    .orderBy('id')
    .execute();
}

/** Those among timelines, and the timelines of branches, that are in object storage with their project or soon may be. */
export async function findNeededOfDetached(
  store: Store,
  project_id: ProjectId,
  { timeline_ids, branch_ids }: { timeline_ids: readonly TimelineId[]; branch_ids: readonly BranchId[] },
): Promise<TimelineId[]> {
  const { rows } = await sql<{ id: TimelineId }>`
    select id from timelines
    where project_id = ${project_id} and deleted_at is null
      and (id = any(${timeline_ids}::uuid[]) or exists (
        select from branches where branches.id = any(${branch_ids}::text[]) and branches.timeline_id = timelines.id
      ))
      and (detached_at is not null or volume is not null and exists (
        select from operations where operations.project_id = ${project_id}
          and operations.action = 'tenant_detach' and operations.status in (${UNFINISHED})
      ))`.execute(store);
  return rows.map(({ id }) => id);
}

/** The timeline is in object storage as it is archived, and not by itself: it goes and comes with its project. */
export async function observeTimelineDetached(trx: StoreTransaction, id: TimelineId): Promise<void> {
  await sql`update timelines set detached_at = archived_at where id = ${id}`.execute(trx);
}

/** The timeline is on this machine as a whole. */
export async function observeTimelineReattached(
  store: Store,
  id: TimelineId,
  volume: { driver: string; id: string },
): Promise<void> {
  await sql`
    update timelines set archived_at = null, detached_at = null, reattached_at = clock_timestamp(),
      volume = ${JSON.stringify(volume)}::jsonb
    where id = ${id}`.execute(store);
}
