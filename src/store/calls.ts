import { randomUUID } from 'node:crypto';
import { sql } from 'kysely';
import { CoppiceError } from '../domain/errors.ts';
import type { CallId } from '../domain/ids.ts';
import { LIMITS } from '../domain/limits.ts';
import { claimKeys, type OperationAction } from '../domain/operation-kinds.ts';
import type { Store, StoreTransaction } from './connection.ts';
import type { OperationRow } from './schema.ts';

/** An operation to come. What it touches decides what it conflicts with (domain/operation-kinds.ts). */
export interface NewOperation {
  readonly action: OperationAction;
  readonly branch_id?: string;
  readonly endpoint_id?: string;
  readonly timeline_id?: string;
  readonly source_timeline_id?: string;
  readonly arguments?: Record<string, unknown>;
}

/** The task that carries a call; its payload is `{ call_id }`. */
export const RUN_CALL_TASK = 'run_call';

/**
 * Locks the project and tells how many of its calls are unfinished and the first free time of creation, as text since
 * a Date would lose the microseconds. Whoever writes a call holds this lock until it commits, so the calls of one
 * project have one order, and operations have distinct times: a time is a cursor.
 */
async function lockProject(trx: StoreTransaction, projectId: string): Promise<{ unfinished: number; start: string }> {
  await sql`select from projects where id = ${projectId} for no key update`.execute(trx);
  const { rows } = await sql<{ unfinished: number; start: string }>`
    select
      (select count(*) from calls where project_id = ${projectId} and finished_at is null) as unfinished,
      greatest(
        clock_timestamp(),
        (select max(created_at) from operations where project_id = ${projectId}) + interval '1 microsecond'
      )::text as start`.execute(trx);
  return rows[0]!;
}

/**
 * Writes a call with its operations, the first as `running`, and enqueues the job that runs them in order. Belongs in
 * the transaction that writes the intent. Refuses with 423 when too much of the project is unfinished.
 *
 * @param run_at earliest time of the first attempt
 */
export async function createCall(
  trx: StoreTransaction,
  projectId: string,
  operations: readonly NewOperation[],
  { run_at }: { run_at?: Date } = {},
): Promise<OperationRow[]> {
  if (operations.length === 0) return [];
  const { unfinished, start } = await lockProject(trx, projectId);
  if (unfinished >= LIMITS.unfinished_calls_per_project) throw new CoppiceError('operations_running');

  const call_id = randomUUID();
  await trx
    .insertInto('calls')
    .values({ id: call_id, project_id: projectId, run_at: run_at ?? null })
    .execute();
  const rows = await trx
    .insertInto('operations')
    .values(
      operations.map(({ arguments: args, ...operation }, position) => {
        const claims = claimKeys(operation.action, { project_id: projectId, ...operation });
        const created_at = sql<Date>`${start}::timestamptz + ${position}::integer * interval '1 microsecond'`;
        return {
          ...operation,
          id: randomUUID(),
          call_id,
          position,
          project_id: projectId,
          claims_exclusive: claims.exclusive,
          claims_shared: claims.shared,
          status: position === 0 ? ('running' as const) : ('scheduling' as const),
          arguments: JSON.stringify(args ?? {}),
          created_at,
          updated_at: created_at,
        };
      }),
    )
    .returningAll()
    .execute();
  await enqueueCall(trx, call_id, run_at);
  return rows.sort((a, b) => a.position - b.position);
}

/** Enqueues the job of a call, at `run_at` or now. A job of the same call that nobody runs yet is replaced. */
export async function enqueueCall(store: Store | StoreTransaction, callId: CallId, run_at?: Date): Promise<void> {
  await sql`select graphile_worker.add_job(${RUN_CALL_TASK}, json_build_object('call_id', ${callId}::text),
    job_key := ${callId}::text, run_at := ${run_at ?? null}::timestamptz, max_attempts := 25)`.execute(store);
}

/** What is being deleted. */
interface CancelScope {
  readonly project_id?: string;
  readonly branch_id?: string;
  readonly endpoint_id?: string;
  readonly timeline_id?: string;
}

/** Unfinished operations on it. A snapshot that was asked for is made even when its branch goes. */
const inScope = (scope: CancelScope) => sql<boolean>`(
  operations.status in ('scheduling', 'running')
  and (operations.project_id = ${scope.project_id ?? null}
    or operations.branch_id = ${scope.branch_id ?? null} and operations.arguments->>'snapshot_id' is null
    or operations.endpoint_id = ${scope.endpoint_id ?? null}
    or operations.timeline_id = ${scope.timeline_id ?? null}::uuid)
)`;

/**
 * Cancels what is unfinished on something that is being deleted: what has begun and is being run is asked to stop
 * (`cancelling`), the rest never runs.
 */
export async function cancelUnfinished(trx: StoreTransaction, scope: CancelScope): Promise<void> {
  const { rows: calls } = await sql<{ id: string }>`
    select calls.id from calls
    where calls.finished_at is null and exists (
      select from operations where operations.call_id = calls.id and ${inScope(scope)}
    )
    order by calls.seq for update`.execute(trx);
  for (const { id } of calls) {
    await sql`
      update operations set
        status = case when started_at is not null and calls.held_by is not null then 'cancelling' else 'cancelled' end,
        finished_at = case when started_at is not null and calls.held_by is not null then null else now() end,
        updated_at = clock_timestamp()
      from calls
      where calls.id = operations.call_id and calls.id = ${id} and ${inScope(scope)}`.execute(trx);
    await sql`
      update calls set finished_at = now()
      where id = ${id} and held_by is null and not exists (
        select from operations where call_id = ${id} and status in ('scheduling', 'running', 'cancelling')
      )`.execute(trx);
  }
}
