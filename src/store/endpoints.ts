import { type Insertable, sql, type Updateable } from 'kysely';
import { type OperationAction, UNFINISHED_STATUSES } from '../domain/operation-kinds.ts';
import type { Store, StoreTransaction } from './connection.ts';
import type { EndpointRow, EndpointsTable } from './schema.ts';

/** An endpoint with what its shown state is computed from. */
export interface EndpointView extends EndpointRow {
  /** The timeline of its branch. */
  readonly timeline_id: string;
  /** Where its unfinished operations lead: the last start or suspend among them. */
  readonly last_unfinished: 'start_compute' | 'suspend_compute' | null;
}

/** Names no endpoint twice: operations of one project are created in order, so the newest is the one that runs last. */
function endpointViews(store: Store) {
  return store
    .selectFrom('endpoints')
    .innerJoin('branches', 'branches.id', 'endpoints.branch_id')
    .selectAll('endpoints')
    .select('branches.timeline_id')
    .select((eb) =>
      eb
        .selectFrom('operations')
        .select(sql<'start_compute' | 'suspend_compute'>`operations.action`.as('action'))
        .whereRef('operations.endpoint_id', '=', 'endpoints.id')
        .where('operations.status', 'in', UNFINISHED_STATUSES)
        .where('operations.action', 'in', ['start_compute', 'suspend_compute'] satisfies OperationAction[])
        .orderBy('operations.created_at', 'desc')
        .limit(1)
        .as('last_unfinished'),
    )
    .where('endpoints.deleted_at', 'is', null);
}

/** Endpoints of the given projects, oldest first. */
export function listEndpointsOfProjects(store: Store, project_ids: readonly string[]): Promise<EndpointView[]> {
  return endpointViews(store)
    .where('endpoints.project_id', '=', sql<string>`any(${project_ids}::text[])`)
    .orderBy('endpoints.created_at')
    .orderBy('endpoints.id')
    .execute();
}

/** Endpoints of a branch, oldest first. */
export function listEndpointsOfBranch(store: Store, branch_id: string): Promise<EndpointView[]> {
  return endpointViews(store)
    .where('endpoints.branch_id', '=', branch_id)
    .orderBy('endpoints.created_at')
    .orderBy('endpoints.id')
    .execute();
}

/** The given endpoints, those that exist. */
export function findEndpoints(store: Store, ids: readonly string[]): Promise<EndpointView[]> {
  return endpointViews(store).where('endpoints.id', '=', sql<string>`any(${ids}::text[])`).execute();
}

/**
 * Locks endpoints against changes of intent and of where they are going, and reads them anew. Whoever decides by an
 * endpoint's state and then writes an operation for it holds this lock; the order of locks is branch, endpoint, project.
 */
export async function lockEndpoints(trx: StoreTransaction, ids: readonly string[]): Promise<EndpointView[]> {
  const { rows } = await sql`
    select from endpoints where id = any(${ids}::text[]) and deleted_at is null order by id for no key update`.execute(
    trx,
  );
  // A second statement, since the first one's snapshot may be older than what it waited for.
  return rows.length === 0 ? [] : findEndpoints(trx, ids);
}

/** The id of the branch's read_write endpoint; undefined when it has none. */
export async function findReadWriteEndpointId(store: Store, branch_id: string): Promise<string | undefined> {
  const row = await store
    .selectFrom('endpoints')
    .select('id')
    .where('branch_id', '=', branch_id)
    .where('type', '=', 'read_write')
    .where('deleted_at', 'is', null)
    .executeTakeFirst();
  return row?.id;
}

export function insertEndpoint(trx: StoreTransaction, endpoint: Insertable<EndpointsTable>): Promise<EndpointRow> {
  return trx.insertInto('endpoints').values(endpoint).returningAll().executeTakeFirstOrThrow();
}

/** Changes an endpoint's intent. */
export async function updateEndpoint(
  trx: StoreTransaction,
  id: string,
  changes: Pick<
    Updateable<EndpointsTable>,
    | 'branch_id'
    | 'name'
    | 'min_cu'
    | 'max_cu'
    | 'suspend_timeout_seconds'
    | 'pg_settings'
    | 'pooler_enabled'
    | 'passwordless_access'
    | 'disabled'
  >,
): Promise<void> {
  await trx
    .updateTable('endpoints')
    .set({ ...changes, updated_at: sql<Date>`now()` })
    .where('id', '=', id)
    .execute();
}

/** Says that endpoints are to go. Their hosts stop answering with the commit; what is left of them goes later. */
export async function markEndpointsDeleted(trx: StoreTransaction, ids: readonly string[]): Promise<void> {
  await trx
    .updateTable('endpoints')
    .set({ deleted_at: sql<Date>`now()`, updated_at: sql<Date>`now()` })
    .where('id', '=', sql<string>`any(${ids}::text[])`)
    .execute();
}
