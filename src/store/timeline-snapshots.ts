import { type Selectable, sql } from 'kysely';
import type { ProjectId, TimelineId } from '../domain/ids.ts';
import type { Lsn } from '../domain/lsn.ts';
import type { Store } from './connection.ts';
import type { TimelineSnapshotRow, TimelineSnapshotsTable } from './schema.ts';

/** Snapshots of timelines: rows that come before their volumes and go after them. */

type Volume = NonNullable<TimelineSnapshotRow['volume']>;

/** A snapshot that can be replayed from. */
export type ReadySnapshot = TimelineSnapshotRow & {
  readonly volume: Volume;
  readonly lsn: Lsn;
  readonly taken_at: Date;
};

const readySnapshots = (store: Store, timelineId: TimelineId) =>
  store
    .selectFrom('timeline_snapshots')
    .selectAll()
    .where('timeline_id', '=', timelineId)
    .where('purged_at', 'is', null)
    .where('deleted_at', 'is', null)
    .where('volume', 'is not', null);

/** The newest snapshot of a timeline that holds nothing from `lsn` on; undefined when there is none. */
export async function findSnapshotBefore(
  store: Store,
  timelineId: TimelineId,
  lsn: Lsn,
): Promise<ReadySnapshot | undefined> {
  const row = await readySnapshots(store, timelineId)
    .where(sql<boolean>`lsn::pg_lsn <= ${lsn}::pg_lsn`)
    .orderBy(sql`lsn::pg_lsn`, 'desc')
    .limit(1)
    .executeTakeFirst();
  return row as ReadySnapshot | undefined;
}

/** The snapshots of a timeline that can be replayed from, in the order of their positions. */
export async function findReadySnapshots(store: Store, timelineId: TimelineId): Promise<ReadySnapshot[]> {
  return (await readySnapshots(store, timelineId).orderBy(sql`lsn::pg_lsn`).execute()) as ReadySnapshot[];
}

/** Everything of a timeline that may have a volume, half-made and half-deleted ones included. */
export function findUnpurgedSnapshots(store: Store, timelineId: TimelineId): Promise<TimelineSnapshotRow[]> {
  return store
    .selectFrom('timeline_snapshots')
    .selectAll()
    .where('timeline_id', '=', timelineId)
    .where('purged_at', 'is', null)
    .execute();
}

/** Those whose making or removal was interrupted, or goes on at this moment. */
export function findUnsettledSnapshots(store: Store): Promise<TimelineSnapshotRow[]> {
  return store
    .selectFrom('timeline_snapshots')
    .selectAll()
    .where('purged_at', 'is', null)
    .where((eb) => eb.or([eb('volume', 'is', null), eb('deleted_at', 'is not', null)]))
    .execute();
}

/** Says that a snapshot is about to be made. False when its timeline is deleted: nothing new is made of it. */
export async function insertSnapshot(
  store: Store,
  { id, timeline_id, kind }: Pick<Selectable<TimelineSnapshotsTable>, 'id' | 'timeline_id' | 'kind'>,
): Promise<boolean> {
  const { rows } = await sql`
    insert into timeline_snapshots (id, timeline_id, kind)
    select ${id}, timelines.id, ${kind} from timelines join projects on projects.id = timelines.project_id
    where timelines.id = ${timeline_id} and timelines.deleted_at is null and projects.deleted_at is null
    returning id`.execute(store);
  return rows.length > 0;
}

/** The snapshot can be replayed from. False when it was deleted meanwhile. */
export async function observeSnapshotTaken(
  store: Store,
  id: string,
  seen: { volume: Volume; lsn: Lsn; taken_at: Date },
): Promise<boolean> {
  const row = await store
    .updateTable('timeline_snapshots')
    .set({ ...seen, volume: JSON.stringify(seen.volume) })
    .where('id', '=', id)
    .where('deleted_at', 'is', null)
    .returning('id')
    .executeTakeFirst();
  return row !== undefined;
}

/** Nothing is replayed from the snapshot any more; its volume goes next. */
export async function markSnapshotDeleted(store: Store, id: string): Promise<void> {
  await store
    .updateTable('timeline_snapshots')
    .set({ deleted_at: sql<Date>`clock_timestamp()` })
    .where('id', '=', id)
    .where('deleted_at', 'is', null)
    .execute();
}

export async function observeSnapshotPurged(store: Store, id: string): Promise<void> {
  await store
    .updateTable('timeline_snapshots')
    .set({ volume: null, purged_at: sql<Date>`clock_timestamp()` })
    .where('id', '=', id)
    .execute();
}

/** What decides whether a timeline needs a snapshot. */
export interface SnapshotNeed {
  readonly id: TimelineId;
  readonly volume: Volume;
  /** The newest one; null when there is none. */
  readonly lsn: Lsn | null;
  readonly taken_at: Date | null;
  readonly retention_seconds: number;
}

/** Of the newest snapshot that can be replayed from, if any. */
const NEWEST = sql`left join lateral (
  select lsn, taken_at from timeline_snapshots
  where timeline_id = timelines.id and purged_at is null and deleted_at is null and volume is not null
  order by lsn::pg_lsn desc limit 1
) newest on true`;

/** The window that is kept; a project has the one it was made with until another was applied. */
const RETENTION = sql`coalesce(projects.applied_history_retention_seconds, projects.history_retention_seconds)`;

/** Undefined when the timeline keeps no history, or has no volume. */
export async function findSnapshotNeed(store: Store, timelineId: TimelineId): Promise<SnapshotNeed | undefined> {
  const { rows } = await sql<SnapshotNeed>`
    select timelines.id, timelines.volume, newest.lsn, newest.taken_at, ${RETENTION} as retention_seconds
    from timelines join projects on projects.id = timelines.project_id ${NEWEST}
    where timelines.id = ${timelineId} and timelines.volume is not null and ${RETENTION} > 0`.execute(store);
  return rows[0];
}

/** Timelines that keep a history and whose server runs, with that server. */
export async function findRunningSnapshotNeeds(
  store: Store,
): Promise<(SnapshotNeed & { readonly compute: { driver: string; id: string }; readonly started_at: Date })[]> {
  const { rows } = await sql<Awaited<ReturnType<typeof findRunningSnapshotNeeds>>[number]>`
    select timelines.id, timelines.volume, newest.lsn, newest.taken_at, ${RETENTION} as retention_seconds,
      endpoints.compute, endpoints.started_at
    from endpoints join timelines on timelines.id = endpoints.serves_timeline_id
    join projects on projects.id = timelines.project_id ${NEWEST}
    where endpoints.observed_state = 'running' and endpoints.type = 'read_write' and endpoints.deleted_at is null
      and endpoints.compute is not null and endpoints.started_at is not null
      and timelines.volume is not null and timelines.deleted_at is null and ${RETENTION} > 0
      and not exists (
        select from branches where branches.id = endpoints.branch_id and branches.ephemeral_of is not null
      )
    order by newest.taken_at nulls first`.execute(store);
  return rows;
}

/** Timelines that have snapshots, with their windows: a project's, or the next of a walk over all behind `after`. */
export async function findTimelinesWithSnapshots(
  store: Store,
  scope: { readonly project_id: ProjectId } | { readonly after: TimelineId },
): Promise<{ id: TimelineId; retention_seconds: number }[]> {
  const chosen =
    'after' in scope ? sql`timelines.id > ${scope.after}` : sql`timelines.project_id = ${scope.project_id}`;
  const { rows } = await sql<{ id: TimelineId; retention_seconds: number }>`
    select timelines.id, ${RETENTION} as retention_seconds
    from timelines join projects on projects.id = timelines.project_id
    where ${chosen} and exists (
      select from timeline_snapshots where timeline_id = timelines.id and purged_at is null
    )
    order by timelines.id ${'after' in scope ? sql`limit 200` : sql``}`.execute(store);
  return rows;
}

/** Snapshots whose own space is unknown or was measured more than an hour ago. */
export async function findSnapshotsToMeasure(store: Store): Promise<{ id: string; volume: Volume }[]> {
  const { rows } = await sql<{ id: string; volume: Volume }>`
    select id, volume from timeline_snapshots
    where purged_at is null and deleted_at is null and volume is not null
      and (measured_at is null or measured_at < now() - interval '1 hour')
    order by measured_at nulls first limit 4`.execute(store);
  return rows;
}

export async function observeSnapshotSize(store: Store, id: string, unshared_bytes: number | undefined): Promise<void> {
  await store
    .updateTable('timeline_snapshots')
    .set({ unshared_size_bytes: unshared_bytes ?? null, measured_at: sql<Date>`clock_timestamp()` })
    .where('id', '=', id)
    .execute();
}

/** The snapshot that a timeline's history begins with; undefined when it keeps none. */
export async function findOldestSnapshot(store: Store, timelineId: TimelineId): Promise<ReadySnapshot | undefined> {
  const row = await readySnapshots(store, timelineId).orderBy(sql`lsn::pg_lsn`).limit(1).executeTakeFirst();
  return row as ReadySnapshot | undefined;
}

/** Forgets snapshots that were removed before a time, `most` at once. */
export async function forgetPurgedSnapshots(store: Store, before: Date, most: number): Promise<void> {
  await sql`
    delete from timeline_snapshots where id in (
      select id from timeline_snapshots where purged_at < ${before} order by purged_at limit ${most}
    )`.execute(store);
}
