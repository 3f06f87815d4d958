import { randomUUID } from 'node:crypto';
import { sql } from 'kysely';
import { CoppiceError } from '../domain/errors.ts';
import type { BranchId, CallId, ProjectId, TimelineId } from '../domain/ids.ts';
import { LIMITS } from '../domain/limits.ts';
import { claimKeys, MAKES_VOLUME, NEEDS_VOLUME, type OperationAction } from '../domain/operation-kinds.ts';
import { type ArchivedBranch, findArchivedBranches } from './archived-timelines.ts';
import { refusePrivate } from './branch-maskings.ts';
import type { Store, StoreTransaction } from './connection.ts';
import { findNeededOfDetached } from './detached-projects.ts';
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

/** What was found behind the lock. */
interface LockedProject {
  /** Calls that have not ended. */
  readonly unfinished: number;
  /** Something of it is in object storage alone, or is about to be. */
  readonly archives: boolean;
  /** A branch of it is to be anonymized, and is not yet. */
  readonly has_private: boolean;
  /** The first free time of creation, as text since a Date would lose the microseconds. */
  readonly start: string;
}

/**
 * Locks the project. Whoever writes a call holds this lock until it commits, so the calls of one project have one order,
 * and operations have distinct times: a time is a cursor.
 */
async function lockProject(trx: StoreTransaction, projectId: string): Promise<LockedProject> {
  await sql`select from projects where id = ${projectId} for no key update`.execute(trx);
  const { rows } = await sql<LockedProject>`
    select
      (select count(*) from calls where project_id = ${projectId} and finished_at is null) as unfinished,
      exists (select from timelines where project_id = ${projectId} and archived_at is not null) or exists (
        select from operations where project_id = ${projectId} and action in ('timeline_archive', 'tenant_detach')
          and status in ('scheduling', 'running', 'cancelling')
      ) as archives,
      exists (
        select from branch_maskings join branches on branches.id = branch_maskings.branch_id
        join timelines on timelines.id = branches.timeline_id
        where branch_maskings.project_id = ${projectId} and branches.deleted_at is null and timelines.ready_at is null
          and branch_maskings.state <> 'anonymized'
      ) as has_private,
      greatest(
        clock_timestamp(),
        (select max(created_at) from operations where project_id = ${projectId}) + interval '1 microsecond'
      )::text as start`.execute(trx);
  return rows[0]!;
}

/**
 * Writes a call with its operations, the first as `running`, and enqueues the job that runs them in order. Belongs in
 * the transaction that writes the intent. Refuses with 423 when too much of the project is unfinished. Whatever needs an
 * archived branch brings it back first, and its ancestors meanwhile; whatever needs something of a detached project brings
 * all of that back first. What was to be archived or detached is not. An anonymized branch that is not masked yet is only for
 * the call that masks it.
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
  const locked = await lockProject(trx, projectId);
  if (locked.has_private) await refusePrivate(trx, projectId, neededBefore(operations));
  const first = locked.archives ? await bringBack(trx, projectId, neededBy(operations)) : [];
  if (first.length === 0) return insertCall(trx, locked, projectId, operations, run_at);
  return insertCall(trx, await lockProject(trx, projectId), projectId, [...first, ...operations], run_at);
}

/**
 * Brings the branch of a timeline back that is archived or about to be, and its ancestors; no operations where that is not
 * so.
 */
export const unarchive = (trx: StoreTransaction, timeline: KnownTimeline): Promise<OperationRow[]> =>
  callFor(trx, timeline, unarchiveFirst);

/** Brings the volume of a timeline to this machine, wherever it is; no operations where it is here. */
export const bringVolume = (trx: StoreTransaction, timeline: KnownTimeline): Promise<OperationRow[]> =>
  callFor(trx, timeline, bringBack);

interface KnownTimeline {
  readonly timeline_id: TimelineId;
  readonly project_id: ProjectId;
}

async function callFor(
  trx: StoreTransaction,
  { timeline_id, project_id }: KnownTimeline,
  plan: typeof bringBack,
): Promise<OperationRow[]> {
  const { archives } = await lockProject(trx, project_id);
  const first = archives ? await plan(trx, project_id, { timeline_ids: [timeline_id], branch_ids: [] }) : [];
  return first.length > 0 ? insertCall(trx, await lockProject(trx, project_id), project_id, first) : [];
}

interface Needed {
  readonly timeline_ids: TimelineId[];
  readonly branch_ids: BranchId[];
}

function neededBy(operations: readonly NewOperation[]): Needed {
  const needy = operations.filter(({ action }) => NEEDS_VOLUME.has(action));
  return {
    timeline_ids: needy.flatMap(({ timeline_id, source_timeline_id }) =>
      [timeline_id, source_timeline_id].filter((id) => id !== undefined),
    ),
    // A replica claims no timeline, and is made from one all the same.
    branch_ids: needy.flatMap(({ branch_id, endpoint_id }) => (branch_id && endpoint_id ? [branch_id] : [])),
  };
}

/** Without what the operations make themselves. */
function neededBefore(operations: readonly NewOperation[]): Needed {
  const makers = operations.filter(({ action }) => MAKES_VOLUME.has(action));
  const made = new Set(makers.flatMap(({ timeline_id, branch_id }) => [timeline_id, branch_id]));
  const { timeline_ids, branch_ids } = neededBy(operations);
  return {
    timeline_ids: timeline_ids.filter((id) => !made.has(id)),
    branch_ids: branch_ids.filter((id) => !made.has(id)),
  };
}

/** Returns what must run first. */
async function bringBack(trx: StoreTransaction, projectId: ProjectId, needed: Needed): Promise<NewOperation[]> {
  const detached = await findNeededOfDetached(trx, projectId, needed);
  if (detached.length > 0) await cancelUnfinished(trx, { detached_project_id: projectId });
  return [
    ...(detached.length > 0
      ? [{ action: 'tenant_reattach', arguments: { timeline_ids: detached } } satisfies NewOperation]
      : []),
    ...(await unarchiveFirst(trx, projectId, needed)),
  ];
}

/** The same of archived branches. Ancestors come back by calls of their own: nobody need wait for them. */
async function unarchiveFirst(trx: StoreTransaction, projectId: ProjectId, needed: Needed): Promise<NewOperation[]> {
  const branches = await findArchivedBranches(trx, projectId, needed);
  if (branches.length === 0) return [];
  await cancelUnfinished(trx, { archived_timeline_ids: branches.map(({ timeline_id }) => timeline_id) });
  const back = ({ id, timeline_id }: ArchivedBranch): NewOperation => ({
    action: 'timeline_unarchive',
    branch_id: id,
    timeline_id,
  });
  for (const ancestor of branches.filter(({ asked }) => !asked)) {
    await insertCall(trx, await lockProject(trx, projectId), projectId, [back(ancestor)]);
  }
  return branches.filter(({ asked }) => asked).map(back);
}

async function insertCall(
  trx: StoreTransaction,
  { unfinished, start }: LockedProject,
  projectId: ProjectId,
  operations: readonly NewOperation[],
  run_at?: Date,
): Promise<OperationRow[]> {
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
  /** Only their archiving. */
  readonly archived_timeline_ids?: readonly string[];
  /** Only its detachment. */
  readonly detached_project_id?: string;
}

/**
 * Unfinished operations on it. A snapshot that was asked for is made even when its branch goes, and what is brought back
 * may be needed by others, too.
 */
const inScope = (scope: CancelScope) => sql<boolean>`(
  operations.status in ('scheduling', 'running')
  and (operations.project_id = ${scope.project_id ?? null}
    or operations.branch_id = ${scope.branch_id ?? null} and operations.arguments->>'snapshot_id' is null
      and operations.action <> 'timeline_unarchive'
    or operations.action = 'timeline_archive'
      and operations.timeline_id = any(${scope.archived_timeline_ids ?? []}::uuid[])
    or operations.action = 'tenant_detach' and operations.project_id = ${scope.detached_project_id ?? null}
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
