import { sql } from 'kysely';
import type { Store } from './connection.ts';

/** Registers a process that runs operations. */
export async function insertWorker(store: Store, id: string, dataDirectoryId: string): Promise<void> {
  await store.insertInto('workers').values({ id, data_directory_id: dataDirectoryId }).execute();
}

export async function updateHeartbeat(store: Store, id: string): Promise<void> {
  await store.updateTable('workers').set({ heartbeat_at: sql<Date>`clock_timestamp()` }).where('id', '=', id).execute();
}

/**
 * Workers that are dead: silent for too long, or of this data directory but not the one that owns it now; and those that
 * locked jobs and were killed before they could register.
 */
export async function findDeadWorkers(
  store: Store,
  { own_id, data_directory_id, silence_ms }: { own_id: string; data_directory_id: string; silence_ms: number },
): Promise<string[]> {
  const { rows } = await sql<{ id: string }>`
    select id from workers
    where id <> ${own_id}
      and (data_directory_id = ${data_directory_id} or heartbeat_at < clock_timestamp() - ${silence_ms} * interval '1 millisecond')
    union
    select locked_by from graphile_worker.jobs
    where locked_at < now() - ${silence_ms} * interval '1 millisecond'
      and not exists (select from workers where workers.id = locked_by)
    `.execute(store);
  return rows.map((row) => row.id);
}

/** What a worker holds a call by: one for each attempt, so that an attempt which is over is never taken for the next. */
export const holdOf = (workerId: string, attempt: number): string => `${workerId}/${attempt}`;

/** Gives back everything that dead workers held, and forgets them. */
export async function releaseWorkers(store: Store, ids: string[]): Promise<void> {
  await sql`update calls set held_by = null where split_part(held_by, '/', 1) = any(${ids}::text[])`.execute(store);
  await store.deleteFrom('workers').where('id', 'in', ids).execute();
}

/**
 * Gives back what a worker's attempts that are over still hold: they threw, or our database forgot with its own death
 * how they ended. An attempt that begins after the look has a higher number than `newest`.
 */
export async function releaseOver(
  store: Store,
  workerId: string,
  { newest, active }: { readonly newest: number; readonly active: readonly string[] },
): Promise<void> {
  await sql`
    update calls set held_by = null
    where split_part(held_by, '/', 1) = ${workerId} and split_part(held_by, '/', 2)::integer <= ${newest}
      and held_by <> all(${active}::text[])`.execute(store);
}

/** Whether jobs are locked by a worker that does not work on them: it could not say how they ended. */
export async function holdsAbandonedJobs(store: Store, id: string, running: readonly string[]): Promise<boolean> {
  // One that was locked a moment ago may not have begun.
  const { rows } = await sql`
    select from graphile_worker.jobs
    where locked_by = ${id} and key <> all(${running}::text[]) and locked_at < now() - interval '3 seconds'
    limit 1`.execute(store);
  return rows.length > 0;
}

/** Whether a job waits that should have been taken: who was to be told of it missed that. */
export async function hasOverdueJob(store: Store): Promise<boolean> {
  const { rows } = await sql`
    select from graphile_worker.jobs where locked_at is null and run_at < now() - interval '1 second' limit 1`.execute(
    store,
  );
  return rows.length > 0;
}

/** Makes every process look for jobs now: unlocking jobs alone would wait for the next poll. */
export async function notifyPollers(store: Store): Promise<void> {
  await sql`select pg_notify('jobs:insert', '{"count":1}')`.execute(store);
}
