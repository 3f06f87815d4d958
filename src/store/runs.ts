import { sql } from 'kysely';
import type { CallId, EndpointId, OperationId } from '../domain/ids.ts';
import { oneOf } from './any-of.ts';
import type { Store, StoreTransaction } from './connection.ts';
import type { OperationRow } from './schema.ts';

/** Statements by which the engine runs calls. Commits may be lost with the machine: everything here is run again then. */

/** True of a row of `calls` when no earlier call of its project claims the same thing, one of the two exclusively. */
const IS_FREE = sql<boolean>`not exists (
  select from calls earlier
  join operations theirs on theirs.call_id = earlier.id and theirs.status in ('scheduling', 'running', 'cancelling')
  join operations ours on ours.call_id = calls.id and ours.status in ('scheduling', 'running', 'cancelling')
  where earlier.project_id = calls.project_id and earlier.finished_at is null and earlier.seq < calls.seq
    and (ours.claims_exclusive && (theirs.claims_exclusive || theirs.claims_shared)
      or ours.claims_shared && theirs.claims_exclusive)
)`;

/**
 * Takes a call for one attempt of a worker (`holdOf`). Nothing is taken when the call is finished, held, waiting for its
 * retry, or not free.
 */
export async function takeCall(store: Store, callId: CallId, hold: string): Promise<boolean> {
  const { rows } = await sql`
    update calls set held_by = ${hold}
    where id = ${callId} and finished_at is null and held_by is null
      and (run_at is null or run_at <= clock_timestamp() + interval '50 milliseconds')
      and ${IS_FREE}
    returning id`.execute(store);
  return rows.length > 0;
}

/**
 * The call's next unfinished operation, marked as begun; undefined when there is none. One that is being cancelled at
 * this moment is waited for, and is not begun.
 */
export async function beginNextOperation(store: Store, callId: CallId): Promise<OperationRow | undefined> {
  const { rows } = await sql<OperationRow>`
    update operations set
      status = case when status = 'cancelling' then status else 'running' end,
      started_at = coalesce(started_at, clock_timestamp()), retry_at = null, updated_at = clock_timestamp()
    where id = (
      select id from operations
      where call_id = ${callId} and status in ('scheduling', 'running', 'cancelling')
      order by position limit 1 for update
    )
    returning *`.execute(store);
  return rows[0];
}

/** Ends an operation. */
export async function endOperation(
  store: Store,
  id: OperationId,
  status: 'finished' | 'skipped' | 'cancelled',
): Promise<void> {
  await store
    .updateTable('operations')
    .set({ status, error: null, finished_at: sql<Date>`clock_timestamp()`, updated_at: sql<Date>`clock_timestamp()` })
    .where('id', '=', id)
    .execute();
}

/** Records a failed attempt that will be repeated; the operation stays `running`. Gives the call back. */
export async function postponeOperation(
  store: Store,
  operation: Pick<OperationRow, 'id' | 'call_id'>,
  error: string,
  retry_at: Date,
): Promise<void> {
  await store.transaction().execute(async (trx) => {
    await trx
      .updateTable('operations')
      .set((eb) => ({
        error,
        retry_at,
        failures_count: eb('failures_count', '+', 1),
        updated_at: sql<Date>`clock_timestamp()`,
      }))
      .where('id', '=', operation.id)
      .execute();
    await trx
      .updateTable('calls')
      .set({ run_at: retry_at, held_by: null })
      .where('id', '=', operation.call_id)
      .execute();
  });
}

/** Ends an operation as `failed`, and cancels what was to follow it in its call. */
export async function failOperation(
  store: Store | StoreTransaction,
  operation: Pick<OperationRow, 'id' | 'call_id'>,
  error: string,
): Promise<void> {
  await sql`
    update operations set
      status = case when id = ${operation.id} then 'failed' else 'cancelled' end,
      error = case when id = ${operation.id} then ${error}::text end,
      failures_count = failures_count + case when id = ${operation.id} then 1 else 0 end,
      retry_at = null, finished_at = clock_timestamp(), updated_at = clock_timestamp()
    where call_id = ${operation.call_id} and status in ('scheduling', 'running', 'cancelling')`.execute(store);
}

/** Ends a call whose operations have all ended. Returns its project. */
export async function finishCall(store: Store, callId: CallId): Promise<string> {
  const { project_id } = await store
    .updateTable('calls')
    .set({ finished_at: sql<Date>`clock_timestamp()`, held_by: null })
    .where('id', '=', callId)
    .returning('project_id')
    .executeTakeFirstOrThrow();
  return project_id;
}

/** Calls of a project that nobody runs and that need not wait any longer. */
export async function findWaitingCalls(store: Store, projectId: string): Promise<CallId[]> {
  const rows = await store
    .selectFrom('calls')
    .select('id')
    .where('project_id', '=', projectId)
    .where('finished_at', 'is', null)
    .where('held_by', 'is', null)
    .where((eb) => eb.or([eb('run_at', 'is', null), eb('run_at', '<=', sql<Date>`clock_timestamp()`)]))
    .where(IS_FREE)
    .orderBy('seq')
    .execute();
  return rows.map((row) => row.id);
}

/** Calls that nobody holds and that are free, whose job is missing: a process died between the two. */
export async function findCallsWithoutJob(store: Store): Promise<{ id: CallId; run_at: Date | null }[]> {
  const { rows } = await sql<{ id: string; run_at: Date | null }>`
    select calls.id, calls.run_at from calls
    where calls.finished_at is null and calls.held_by is null
      and not exists (select from graphile_worker.jobs where jobs.key = calls.id::text)
      and ${IS_FREE}
    order by calls.seq limit 1000`.execute(store);
  return rows;
}

/** What a call has yet to make branches of. */
export function findPlannedBranches(trx: StoreTransaction, callId: CallId): Promise<OperationRow[]> {
  return trx
    .selectFrom('operations')
    .selectAll()
    .where('call_id', '=', callId)
    .where('action', '=', 'create_branch')
    .where('status', '=', 'scheduling')
    .execute();
}

/** The endpoint that a call starts on a timeline later on, to write to it; undefined when it starts none. */
export async function findPlannedStart(
  store: Store,
  { call_id, timeline_id }: Pick<OperationRow, 'call_id' | 'timeline_id'>,
): Promise<EndpointId | undefined> {
  const row = await store
    .selectFrom('operations')
    .innerJoin('endpoints', 'endpoints.id', 'operations.endpoint_id')
    .select('endpoints.id')
    .where('operations.call_id', '=', call_id)
    .where('operations.timeline_id', '=', timeline_id)
    .where('operations.action', '=', 'start_compute')
    .where('operations.status', '=', 'scheduling')
    .where('endpoints.type', 'in', oneOf(['read_write']))
    .executeTakeFirst();
  return row?.id;
}
