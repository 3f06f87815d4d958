import { sql } from 'kysely';
import type { TimelineId } from '../domain/ids.ts';
import type { Store } from './connection.ts';
import type { TimelineRow } from './schema.ts';

/** Timelines whose server runs and hands its log over. */
export async function findArchivingTimelines(store: Store): Promise<TimelineId[]> {
  const { rows } = await sql<{ id: TimelineId }>`
    select distinct endpoints.serves_timeline_id as id
    from endpoints join projects on projects.id = endpoints.project_id
    join branches on branches.id = endpoints.branch_id and branches.ephemeral_of is null
    where endpoints.observed_state in ('running', 'stopping') and endpoints.type = 'read_write'
      and endpoints.serves_timeline_id is not null and projects.history_retention_seconds > 0`.execute(store);
  return rows.map(({ id }) => id);
}

/** What decides what becomes of an archive. */
export interface ArchivedTimeline {
  readonly id: TimelineId;
  readonly project_id: string;
  readonly volume: TimelineRow['volume'];
  /** As last seen. */
  readonly archive_bytes: number | null;
  readonly purged_at: Date | null;
  /** The longer of what is kept and what is to be kept. */
  readonly retention_seconds: number;
}

/** Undefined for a timeline that nobody knows. */
export async function findArchivedTimeline(store: Store, id: TimelineId): Promise<ArchivedTimeline | undefined> {
  const { rows } = await sql<ArchivedTimeline>`
    select timelines.id, timelines.project_id, timelines.volume, timelines.archive_bytes, timelines.purged_at, greatest(
      projects.history_retention_seconds,
      coalesce(projects.applied_history_retention_seconds, projects.history_retention_seconds)
    ) as retention_seconds
    from timelines join projects on projects.id = timelines.project_id where timelines.id = ${id}`.execute(store);
  return rows[0];
}

/** The timeline whose archive was read through the longest ago, and before `before`. */
export async function findTimelineToCheck(store: Store, before: Date): Promise<TimelineId | undefined> {
  const { rows } = await sql<{ id: TimelineId }>`
    select id from timelines
    where ready_at is not null and purged_at is null and coalesce(archive_checked_at, ready_at) < ${before}
    order by coalesce(archive_checked_at, ready_at) limit 1`.execute(store);
  return rows[0]?.id;
}

/** Everything of the timeline's archive was compared with its checksum. */
export async function observeArchiveChecked(store: Store, id: TimelineId): Promise<void> {
  await store
    .updateTable('timelines')
    .set({ archive_checked_at: sql<Date>`clock_timestamp()` })
    .where('id', '=', id)
    .execute();
}
