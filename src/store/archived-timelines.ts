import { sql } from 'kysely';
import type { BranchId, ProjectId, TimelineId } from '../domain/ids.ts';
import { UNFINISHED_STATUSES } from '../domain/operation-kinds.ts';
import { oneOf } from './any-of.ts';
import type { Store, StoreTransaction } from './connection.ts';

/** Timelines that are in object storage alone, those that are to be, and what was left there of others. */

const UNFINISHED = sql.join(oneOf(UNFINISHED_STATUSES));

/** Of rows of `timelines`: it is archived by itself, not with its whole project, or is about to be. */
const IS_OR_WILL_BE_ARCHIVED = sql<boolean>`(timelines.archived_at is not null and timelines.detached_at is null or exists (
  select from operations where operations.project_id = timelines.project_id and operations.timeline_id = timelines.id
    and operations.action = 'timeline_archive' and operations.status in (${UNFINISHED})
))`;

/** A branch whose timeline must come back. */
export interface ArchivedBranch {
  readonly id: BranchId;
  readonly timeline_id: TimelineId;
  /** One of those that were asked for; else an ancestor of one. */
  readonly asked: boolean;
}

/**
 * The branches among these timelines and branches that are archived or about to be, with their ancestors that are.
 * Parents come after their children.
 */
export async function findArchivedBranches(
  store: Store,
  project_id: ProjectId,
  { timeline_ids, branch_ids }: { timeline_ids: readonly TimelineId[]; branch_ids: readonly BranchId[] },
): Promise<ArchivedBranch[]> {
  const { rows } = await sql<ArchivedBranch>`
    with recursive line as (
      select branches.id, branches.parent_id, branches.timeline_id, 0 as depth
      from branches join timelines on timelines.id = branches.timeline_id
      where branches.project_id = ${project_id} and branches.deleted_at is null
        and (branches.timeline_id = any(${timeline_ids}::uuid[]) or branches.id = any(${branch_ids}::text[]))
        and ${IS_OR_WILL_BE_ARCHIVED}
      union all
      select branches.id, branches.parent_id, branches.timeline_id, line.depth + 1
      from line join branches on branches.id = line.parent_id and branches.deleted_at is null
      where line.depth < 1000
    )
    select line.id, line.timeline_id, min(line.depth) = 0 as asked
    from line join timelines on timelines.id = line.timeline_id
    where ${IS_OR_WILL_BE_ARCHIVED}
    group by line.id, line.timeline_id order by max(line.depth)`.execute(store);
  return rows;
}

/** What is stored of a timeline may be there from now on. */
export async function observeTimelineStored(store: Store, id: TimelineId): Promise<void> {
  await sql`update timelines set stored_at = coalesce(stored_at, clock_timestamp()) where id = ${id}`.execute(store);
}

/**
 * The timeline is in object storage as a whole: what is left of it on this machine is worth nothing, and goes. False when it
 * was deleted meanwhile.
 */
export async function observeTimelineArchived(trx: StoreTransaction, id: TimelineId): Promise<boolean> {
  const { rows } = await sql`
    update timelines set archived_at = clock_timestamp(), volume = null
    where id = ${id} and deleted_at is null and archived_at is null returning id`.execute(trx);
  if (rows.length === 0) return false;
  await sql`
    update timeline_snapshots set deleted_at = clock_timestamp()
    where timeline_id = ${id} and deleted_at is null and purged_at is null`.execute(trx);
  return true;
}

/** The timeline is on this machine as a whole. */
export async function observeTimelineUnarchived(
  store: Store,
  id: TimelineId,
  volume: { driver: string; id: string },
): Promise<void> {
  await sql`
    update timelines set archived_at = null, unarchived_at = clock_timestamp(), volume = ${JSON.stringify(volume)}::jsonb
    where id = ${id}`.execute(store);
}

/** Nothing of the timeline is in object storage. */
export async function observeTimelineNotStored(store: Store, id: TimelineId): Promise<void> {
  await sql`update timelines set stored_at = null where id = ${id} and archived_at is null`.execute(store);
}

/**
 * Timelines that something may be stored of for nothing: they are here, and neither they nor their projects go there or come
 * from there.
 */
export async function findStoredForNothing(store: Store, id?: TimelineId): Promise<TimelineId[]> {
  const { rows } = await sql<{ id: TimelineId }>`
    select id from timelines
    where stored_at is not null and archived_at is null and not ${IS_OR_WILL_BE_ARCHIVED}
      and (${id ?? null}::uuid is null or id = ${id ?? null})
      and not exists (
        select from operations where operations.project_id = timelines.project_id
          and operations.action in ('tenant_detach', 'tenant_reattach') and operations.status in (${UNFINISHED})
      )
      and purged_at is null and deleted_at is null
    order by stored_at limit 16`.execute(store);
  return rows.map(({ id }) => id);
}

/** A branch that nobody has needed for long. */
export interface UnusedBranch {
  readonly id: BranchId;
  readonly project_id: ProjectId;
  readonly timeline_id: TimelineId;
}

/**
 * Branches that may be archived: older than one time and untouched since another, neither default nor protected, with no
 * compute that runs, nothing under way, no schedule of snapshots, and no child that is not archived.
 */
export async function findUnusedBranches(
  store: Store,
  { made_before, untouched_since, id }: { made_before: Date; untouched_since: Date; id?: BranchId },
): Promise<UnusedBranch[]> {
  const { rows } = await sql<UnusedBranch>`
    select branches.id, branches.project_id, branches.timeline_id
    from branches join timelines on timelines.id = branches.timeline_id
    join projects on projects.id = branches.project_id
    where branches.deleted_at is null and projects.deleted_at is null and timelines.deleted_at is null
      and (${id ?? null}::text is null or branches.id = ${id ?? null})
      and ${MAY_BE_ARCHIVED}
      and branches.created_at < ${made_before}
      and greatest(branches.created_at, branches.updated_at, branches.last_reset_at, timelines.ready_at,
        timelines.unarchived_at) < ${untouched_since}
      and not exists (
        select from endpoints where endpoints.branch_id = branches.id and endpoints.deleted_at is null
          and greatest(created_at, updated_at, last_active_at, suspended_at) >= ${untouched_since}
      )
      and not exists (select from backup_schedules where backup_schedules.branch_id = branches.id)
      and not exists (
        select from operations where operations.project_id = branches.project_id
          and (operations.timeline_id = branches.timeline_id or operations.source_timeline_id = branches.timeline_id
            or operations.branch_id = branches.id or operations.timeline_id is null)
          and operations.status in (${UNFINISHED})
      )
      and not exists (
        select from operations where operations.project_id = branches.project_id
          and operations.created_at > now() - interval '1 hour' and operations.timeline_id = branches.timeline_id
          and operations.action = 'timeline_archive' and operations.status = 'failed'
      )
    limit 100`.execute(store);
  return rows;
}

/** Of rows of `branches` with their timelines. */
const MAY_BE_ARCHIVED = sql<boolean>`(
  branches.ephemeral_of is null and not branches.is_default and not branches.protected
  and timelines.volume is not null and timelines.ready_at is not null and timelines.archived_at is null
  and branches.previous_timeline_id is null
  and not exists (select from branches other where other.previous_timeline_id = branches.timeline_id)
  and not exists (
    select from endpoints where endpoints.branch_id = branches.id and endpoints.deleted_at is null
      and endpoints.observed_state in ('running', 'stopping')
  )
  and not exists (
    select from branches child join timelines below on below.id = child.timeline_id
    where (child.parent_id = branches.id or child.ephemeral_of = branches.id)
      and child.deleted_at is null and below.archived_at is null
  )
)`;

/** Whether a timeline whose claim the caller holds may still be archived. */
export async function mayBeArchived(store: Store, timeline_id: TimelineId): Promise<boolean> {
  const { rows } = await sql`
    select from branches join timelines on timelines.id = branches.timeline_id
    where branches.timeline_id = ${timeline_id} and branches.deleted_at is null and timelines.deleted_at is null
      and ${MAY_BE_ARCHIVED}`.execute(store);
  return rows.length === 1;
}
