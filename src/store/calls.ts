import { randomUUID } from 'node:crypto';
import { sql } from 'kysely';
import { CoppiceError } from '../domain/errors.ts';
import type { CallId } from '../domain/ids.ts';
import { LIMITS } from '../domain/limits.ts';
import { type OperationAction, UNFINISHED_STATUSES } from '../domain/operation-kinds.ts';
import type { StoreTransaction } from './connection.ts';
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
 * Locks the project and refuses with 423 when too much is unfinished. Everything that writes a call holds this lock
 * until it commits, so calls of one project have one order.
 */
export async function lockProject(trx: StoreTransaction, projectId: string): Promise<void> {
  await sql`select from projects where id = ${projectId} for no key update`.execute(trx);
}

/**
 * Writes a call with its operations, the first as `running`, and enqueues the job that runs them in order. Belongs in
 * the transaction that writes the intent. Operations of a project have distinct times of creation, in order, so that a
 * time is a cursor.
 */
export async function createCall(
  trx: StoreTransaction,
  projectId: string,
  operations: readonly NewOperation[],
): Promise<OperationRow[]> {
  await lockProject(trx, projectId);
  const { count } = await trx
    .selectFrom('calls')
    .select((eb) => eb.fn.countAll<number>().as('count'))
    .where('project_id', '=', projectId)
    .where('finished_at', 'is', null)
    .executeTakeFirstOrThrow();
  if (count >= LIMITS.unfinished_calls_per_project) throw new CoppiceError('operations_running');
  if (operations.length === 0) return [];

  const call_id = randomUUID();
  await trx.insertInto('calls').values({ id: call_id, project_id: projectId }).execute();
  const { start } = await trx
    .selectNoFrom(
      sql<Date>`greatest(clock_timestamp(), (select max(created_at) + interval '1 microsecond' from operations where project_id = ${projectId}))`.as(
        'start',
      ),
    )
    // As text: a Date would lose the microseconds.
    .$call((query) => trx.selectFrom(query.as('moment')).select(sql<string>`moment.start::text`.as('start')))
    .executeTakeFirstOrThrow();
  const rows = await trx
    .insertInto('operations')
    .values(
      operations.map(({ arguments: args, ...operation }, position) => ({
        id: randomUUID(),
        call_id,
        position,
        project_id: projectId,
        ...operation,
        status: position === 0 ? ('running' as const) : ('scheduling' as const),
        arguments: JSON.stringify(args ?? {}),
        created_at: sql<Date>`${start}::timestamptz + ${position} * interval '1 microsecond'`,
        updated_at: sql<Date>`${start}::timestamptz + ${position} * interval '1 microsecond'`,
      })),
    )
    .returningAll()
    .execute();
  await enqueueCall(trx, call_id);
  return rows.sort((a, b) => a.position - b.position);
}

/** Enqueues the job of a call, at `run_at` or now. A job of the same call that nobody runs yet is replaced. */
export async function enqueueCall(
  trx: StoreTransaction | import('./connection.ts').Store,
  callId: CallId,
  runAt?: Date,
) {
  await sql`select graphile_worker.add_job(${RUN_CALL_TASK}, json_build_object('call_id', ${callId}::text),
    job_key := ${callId}, run_at := ${runAt ?? null}::timestamptz, max_attempts := 25)`.execute(trx);
}

/** The endpoint's unfinished operations, in the order they will run. */
export function findUnfinishedOfEndpoint(trx: StoreTransaction, endpointId: string): Promise<OperationRow[]> {
  return trx
    .selectFrom('operations')
    .innerJoin('calls', 'calls.id', 'operations.call_id')
    .selectAll('operations')
    .where('operations.endpoint_id', '=', endpointId)
    .where('operations.status', 'in', UNFINISHED_STATUSES)
    .orderBy('calls.seq')
    .orderBy('operations.position')
    .execute();
}
