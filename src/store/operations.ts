import { sql } from 'kysely';
import type { BranchId, EndpointId, OperationId, ProjectId, TimelineId } from '../domain/ids.ts';
import { anyOf, oneOf } from './any-of.ts';
import { coalesced } from './coalesced.ts';
import type { Store } from './connection.ts';
import type { OperationRow } from './schema.ts';

/** An operation by id (a UUID), whatever its project. */
export const findOperation = coalesced<string, OperationRow>(async (store, ids) => {
  const rows = await store.selectFrom('operations').selectAll().where('id', '=', anyOf(ids, 'uuid')).execute();
  return new Map(rows.map((row) => [row.id, row]));
});

/** An operation, and its time of creation with microseconds, which a Date would lose. */
export type ListedOperation = OperationRow & { readonly cursor: string };

/** Newest first; with a cursor only what is strictly older. Times of creation are distinct within a project. */
export function listOperations(
  store: Store,
  projectId: string,
  { cursor, limit }: { cursor?: string; limit?: number },
): Promise<ListedOperation[]> {
  return store
    .selectFrom('operations')
    .selectAll()
    .select(sql<string>`to_char(created_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')`.as('cursor'))
    .where('project_id', '=', projectId)
    .$if(cursor !== undefined, (query) => query.where('created_at', '<', sql<Date>`${cursor}::timestamptz`))
    .orderBy('created_at', 'desc')
    .$if(limit !== undefined, (query) => query.limit(limit!))
    .execute();
}

/** What has not ended of a branch and its endpoints, in the order in which it runs. */
export function listUnfinishedOfBranch(
  store: Store,
  projectId: ProjectId,
  branchId: BranchId,
): Promise<OperationRow[]> {
  return store
    .selectFrom('operations')
    .selectAll()
    .where('project_id', '=', projectId)
    .where('branch_id', '=', branchId)
    .where('status', 'in', oneOf(['scheduling', 'running', 'cancelling']))
    .orderBy('created_at')
    .execute();
}

/** The last unfinished operation of an endpoint, else of a branch, else of their project; nothing is in the way after it. */
export async function findOperationInTheWay(
  store: Store,
  { project_id, branch_id, endpoint_id }: { project_id: string; branch_id?: string; endpoint_id?: string },
): Promise<OperationId | undefined> {
  const row = await store
    .selectFrom('operations')
    .select('id')
    .where('project_id', '=', project_id)
    .where('status', 'in', oneOf(['scheduling', 'running', 'cancelling']))
    .orderBy(sql`coalesce(endpoint_id = ${endpoint_id ?? null}, false)`, 'desc')
    .orderBy(sql`coalesce(branch_id = ${branch_id ?? null}, false)`, 'desc')
    .orderBy('created_at', 'desc')
    .limit(1)
    .executeTakeFirst();
  return row?.id;
}

/** Whether somebody waits for the endpoint to start. */
export async function isStartWaiting(store: Store, endpointId: EndpointId): Promise<boolean> {
  const row = await store
    .selectFrom('operations')
    .select('id')
    .where('endpoint_id', '=', endpointId)
    .where('action', '=', 'start_compute')
    .where('status', 'in', oneOf(['scheduling', 'running', 'cancelling']))
    .executeTakeFirst();
  return row !== undefined;
}

/** Timelines that unfinished operations work with, whose calls may have more to do. */
export async function findTimelinesInWork(store: Store): Promise<TimelineId[]> {
  const rows = await store
    .selectFrom('operations')
    .select('timeline_id')
    .distinct()
    .where('status', 'in', oneOf(['scheduling', 'running', 'cancelling']))
    .where('timeline_id', 'is not', null)
    .execute();
  return rows.flatMap(({ timeline_id }) => (timeline_id ? [timeline_id] : []));
}

/**
 * Forgets calls that ended before a time, the oldest first and `most` at once, with their operations. What has not ended
 * stays, however old it is.
 *
 * @returns how many calls
 */
export async function forgetOperations(store: Store, before: Date, most: number): Promise<number> {
  const { rows } = await sql<{ count: number }>`
    with old_calls as materialized (
      select id from calls where finished_at < ${before} order by finished_at limit ${most}
    ), gone_operations as (
      delete from operations using old_calls where operations.call_id = old_calls.id
    ), gone_calls as (
      delete from calls using old_calls where calls.id = old_calls.id
    )
    select count(*)::int as count from old_calls`.execute(store);
  return rows[0]!.count;
}
