import { type Insertable, sql, type Updateable } from 'kysely';
import type { BranchId, EndpointId, OperationId, ProjectId } from '../domain/ids.ts';
import { type OperationAction, UNFINISHED_STATUSES } from '../domain/operation-kinds.ts';
import { anyOf, oneOf } from './any-of.ts';
import { coalesced } from './coalesced.ts';
import type { Store, StoreTransaction } from './connection.ts';
import type { EndpointRow, EndpointsTable } from './schema.ts';

/** An endpoint with what its shown state is computed from. */
export interface EndpointView extends EndpointRow {
  /** The timeline of its branch. */
  readonly timeline_id: string;
  /** The branch whose past it serves; no caller of the API sees such an endpoint. */
  readonly ephemeral_of: string | null;
  /** Of its branch, as it was last measured. */
  readonly logical_size_bytes: number | null;
  /** Roles or databases of its branch wait to be brought to a server. */
  readonly config_pending: boolean;
  /** Where its unfinished operations lead: the last start or suspend among them. */
  readonly last_unfinished: 'start_compute' | 'suspend_compute' | null;
  readonly last_unfinished_id: OperationId | null;
}

/** Operations of one project are created in the order in which they run, so the newest is the one that runs last. */
function endpointViews(store: Store) {
  return store
    .selectFrom('endpoints')
    .innerJoin('branches', 'branches.id', 'endpoints.branch_id')
    .innerJoin('timelines', 'timelines.id', 'branches.timeline_id')
    .leftJoinLateral(
      (eb) =>
        eb
          .selectFrom('operations')
          .select(['operations.id', sql<'start_compute' | 'suspend_compute'>`operations.action`.as('action')])
          .whereRef('operations.endpoint_id', '=', 'endpoints.id')
          .where('operations.status', 'in', oneOf(UNFINISHED_STATUSES))
          .where('operations.action', 'in', oneOf(['start_compute', 'suspend_compute'] satisfies OperationAction[]))
          .orderBy('operations.created_at', 'desc')
          .limit(1)
          .as('last'),
      (join) => join.onTrue(),
    )
    .selectAll('endpoints')
    .select([
      'branches.timeline_id',
      'branches.ephemeral_of',
      'timelines.logical_size_bytes',
      'last.action as last_unfinished',
      'last.id as last_unfinished_id',
    ])
    .select(sql<boolean>`timelines.applied_config_generation < branches.config_generation`.as('config_pending'))
    .where('endpoints.deleted_at', 'is', null)
    .orderBy('endpoints.created_at')
    .orderBy('endpoints.id');
}

/** An endpoint by id, whatever its project. */
export const findEndpoint = coalesced<EndpointId, EndpointView>(async (store, ids) => {
  const rows = await endpointViews(store).where('endpoints.id', '=', anyOf(ids)).execute();
  return new Map(rows.map((row) => [row.id, row]));
});

/** Endpoints of a project as callers see them, oldest first; undefined when there are none. */
export const findEndpointsOfProject = coalesced<ProjectId, EndpointView[]>(async (store, ids) => {
  return Map.groupBy(
    await endpointViews(store)
      .where('endpoints.project_id', '=', anyOf(ids))
      .where('branches.ephemeral_of', 'is', null)
      .execute(),
    (row) => row.project_id,
  );
});

/** All endpoints of a project, those of passing copies for clients who look into the past among them. */
export function findEveryEndpointOfProject(store: Store, id: ProjectId): Promise<EndpointView[]> {
  return endpointViews(store).where('endpoints.project_id', '=', id).execute();
}

/** Endpoints of a branch of any kind, oldest first; undefined when there are none. */
export const findEndpointsOfBranch = coalesced<BranchId, EndpointView[]>(async (store, ids) => {
  return Map.groupBy(
    await endpointViews(store).where('endpoints.branch_id', '=', anyOf(ids)).execute(),
    (row) => row.branch_id,
  );
});

/** Undefined when the branch has a read_write endpoint already. */
export function insertEndpoint(
  trx: StoreTransaction,
  endpoint: Insertable<EndpointsTable>,
): Promise<EndpointRow | undefined> {
  return trx
    .insertInto('endpoints')
    .values(endpoint)
    .onConflict((conflict) =>
      conflict.column('branch_id').where(sql<boolean>`type = 'read_write' and deleted_at is null`).doNothing(),
    )
    .returningAll()
    .executeTakeFirst();
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
    .where('id', '=', anyOf(ids))
    .execute();
}
