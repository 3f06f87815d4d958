import { sql } from 'kysely';
import type { Store } from './connection.ts';
import type { BackupProblem, BackupRequestRow } from './schema.ts';

/** Any constants: one backup at a time is made of an installation. */
const LOCK = { class: 7_432_010, object: 1 };

/**
 * Runs `work` as the only backup of this installation. The lock belongs to the session, and so goes with whoever is killed.
 * @returns undefined without running it when another backup is made
 */
export function asOnlyBackup<T>(store: Store, work: () => Promise<T>): Promise<T | undefined> {
  return store.connection().execute(async (held) => {
    const { rows } = await sql<{ locked: boolean }>`
      select pg_try_advisory_lock(${LOCK.class}::integer, ${LOCK.object}::integer) as locked`.execute(held);
    if (!rows[0]!.locked) return undefined;
    try {
      return await work();
    } finally {
      await sql`select pg_advisory_unlock(${LOCK.class}::integer, ${LOCK.object}::integer)`
        .execute(held)
        .catch(() => {});
    }
  });
}

/** Whether a backup is being made: what it may be made of is not tidied away meanwhile. */
export async function isBackupUnderWay(store: Store): Promise<boolean> {
  const { rows } = await sql`
    select from pg_locks
    where locktype = 'advisory' and granted and classid = ${LOCK.class}::oid and objid = ${LOCK.object}::oid and objsubid = 2
      and database = (select oid from pg_database where datname = current_database())`.execute(store);
  return rows.length > 0;
}

/** Asks the engine for snapshots of everything, in the place of whoever asked before and was killed. */
export async function insertBackupRequest(store: Store): Promise<BackupRequestRow> {
  return store.transaction().execute(async (trx) => {
    await trx.deleteFrom('backup_requests').execute();
    return trx.insertInto('backup_requests').defaultValues().returningAll().executeTakeFirstOrThrow();
  });
}

/** Asks once more: for what was made, or went, since. What is as new as the first request demanded stays good. */
export async function repeatBackupRequest(store: Store, id: string): Promise<void> {
  await store
    .updateTable('backup_requests')
    .set({ snapshots_at: null, problems: '[]', asked_at: sql<Date>`asked_at` })
    .where('id', '=', id)
    .execute();
}

export function findBackupRequest(store: Store, id: string): Promise<BackupRequestRow | undefined> {
  return store.selectFrom('backup_requests').selectAll().where('id', '=', id).executeTakeFirst();
}

export async function deleteBackupRequest(store: Store, id: string): Promise<void> {
  await store.deleteFrom('backup_requests').where('id', '=', id).execute();
}

/** The request that the engine has not served yet; undefined when there is none. */
export function findOpenBackupRequest(store: Store): Promise<BackupRequestRow | undefined> {
  return store.selectFrom('backup_requests').selectAll().where('snapshots_at', 'is', null).executeTakeFirst();
}

export async function observeBackupProgress(
  store: Store,
  id: string,
  seen: { readonly timelines: number; readonly timelines_done: number },
): Promise<void> {
  await store.updateTable('backup_requests').set(seen).where('id', '=', id).execute();
}

/** Every timeline has a snapshot that is new enough, but for those that are named. */
export async function observeBackupSnapshots(
  store: Store,
  id: string,
  problems: readonly BackupProblem[],
): Promise<void> {
  await store
    .updateTable('backup_requests')
    .set({ problems: JSON.stringify(problems), snapshots_at: sql<Date>`clock_timestamp()` })
    .where('id', '=', id)
    .execute();
}

/** Whether any engine works on this installation at this time. */
export async function isEngineAlive(store: Store, { silence_ms }: { readonly silence_ms: number }): Promise<boolean> {
  const { rows } = await sql`
    select from workers where heartbeat_at > clock_timestamp() - ${silence_ms} * interval '1 millisecond' limit 1`.execute(
    store,
  );
  return rows.length > 0;
}

/** A timeline that a backup holds: of a branch, or of a snapshot of the API. */
export interface BackupTimeline {
  readonly id: string;
  readonly project_id: string;
  readonly parent_id: string | null;
  readonly created_at: Date;
  readonly distribution_id: string;
  readonly uid: number;
  readonly volume: { readonly driver: string; readonly id: string };
  /** Nobody writes to it: it is that of a snapshot of the API. */
  readonly frozen: boolean;
  readonly retention_seconds: number;
}

/** A timeline that is in object storage alone. */
export interface ArchivedForBackup {
  readonly id: string;
  readonly archived_at: Date;
}

export async function findArchivedForBackup(store: Store): Promise<ArchivedForBackup[]> {
  const { rows } = await sql<ArchivedForBackup>`
    select timelines.id, timelines.archived_at from timelines join projects on projects.id = timelines.project_id
    where timelines.archived_at is not null and timelines.deleted_at is null and projects.deleted_at is null
    order by timelines.id`.execute(store);
  return rows;
}

/** Every timeline whose volume is here, in the order of their making, so that parents come before what was made of them. */
export async function findBackupTimelines(store: Store): Promise<BackupTimeline[]> {
  const { rows } = await sql<BackupTimeline>`
    select timelines.id, timelines.project_id, timelines.parent_id, timelines.created_at, timelines.distribution_id,
      projects.uid, timelines.volume,
      exists (select from snapshots where snapshots.timeline_id = timelines.id) as frozen,
      coalesce(projects.applied_history_retention_seconds, projects.history_retention_seconds) as retention_seconds
    from timelines join projects on projects.id = timelines.project_id
    where timelines.ready_at is not null and timelines.volume is not null and timelines.deleted_at is null
      and projects.deleted_at is null and not exists (
        select from branches where branches.timeline_id = timelines.id and branches.ephemeral_of is not null
      )
    order by timelines.created_at, timelines.id`.execute(store);
  return rows;
}
