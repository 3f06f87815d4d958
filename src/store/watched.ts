import { sql } from 'kysely';
import type { EndpointId } from '../domain/ids.ts';
import type { Store, StoreTransaction } from './connection.ts';
import type { EndpointRow } from './schema.ts';

/** A running endpoint as the chores see it. */
export interface WatchedEndpoint {
  readonly id: EndpointId;
  readonly project_id: string;
  readonly branch_id: string;
  readonly type: 'read_write' | 'read_only';
  readonly timeline_id: string;
  readonly serves_timeline_id: string | null;
  readonly compute: { driver: string; id: string };
  readonly started_at: Date;
  readonly suspend_timeout_seconds: number;
}

/** Running endpoints that nothing is being done to. */
export async function findWatchedEndpoints(store: Store): Promise<WatchedEndpoint[]> {
  const { rows } = await sql<WatchedEndpoint>`
    select endpoints.id, endpoints.project_id, endpoints.branch_id, endpoints.type, branches.timeline_id,
      endpoints.compute,
      endpoints.serves_timeline_id, endpoints.started_at, endpoints.suspend_timeout_seconds
    from endpoints join branches on branches.id = endpoints.branch_id
    where endpoints.observed_state = 'running' and endpoints.deleted_at is null
      and endpoints.compute is not null and endpoints.started_at is not null
      and not exists (
        select from operations where operations.endpoint_id = endpoints.id
          and operations.status in ('scheduling', 'running', 'cancelling')
      )
    order by endpoints.id`.execute(store);
  return rows;
}

/**
 * Holds an endpoint as it is for a decision of the platform; false when it is gone, was stopped or started since it was
 * looked at, or something is being done to it.
 * Whoever changes anything of a project begins with the project's lock, so that nobody waits for each other in a ring.
 */
export async function lockSettledEndpoint(
  trx: StoreTransaction,
  { id, project_id, started_at }: Pick<WatchedEndpoint, 'id' | 'project_id'> & { readonly started_at: Date | null },
): Promise<boolean> {
  await sql`select from projects where id = ${project_id} for no key update`.execute(trx);
  const { rows } = await sql`
    select from endpoints
    where id = ${id} and deleted_at is null and observed_state = 'running'
      and started_at is not distinct from ${started_at} and not exists (
      select from operations where operations.endpoint_id = endpoints.id
        and operations.status in ('scheduling', 'running', 'cancelling')
    )`.execute(trx);
  return rows.length > 0;
}

/** Deleted things that were kept for long enough, or whose purge failed for good. */
export async function findLeftovers(
  store: Store,
  keep_deleted_projects_ms: number,
): Promise<{ project_id: string; timeline_id: string | null }[]> {
  const { rows } = await sql<{ project_id: string; timeline_id: string | null }>`
    select id as project_id, null::uuid as timeline_id from projects
    where deleted_at <= now() - ${keep_deleted_projects_ms} * interval '1 ms' and purged_at is null and not exists (
      select from calls where calls.project_id = projects.id and calls.finished_at is null
    )
    union all
    select timelines.project_id, timelines.id from timelines join projects on projects.id = timelines.project_id
    where timelines.deleted_at is not null and timelines.purged_at is null and projects.deleted_at is null
      and not exists (select from calls where calls.project_id = timelines.project_id and calls.finished_at is null)
    limit 100`.execute(store);
  return rows;
}

/** Endpoints that were deleted while they slept, or one of them: what their computes left is still there. */
export async function findDeletedPlaced(
  store: Store,
  id?: EndpointId,
): Promise<Pick<EndpointRow, 'id' | 'type' | 'compute'>[]> {
  const { rows } = await sql<Pick<EndpointRow, 'id' | 'type' | 'compute'>>`
    select id, type, compute from endpoints
    where deleted_at is not null and compute is not null and (${id ?? null}::text is null or id = ${id ?? null}) and not exists (
      select from operations where operations.endpoint_id = endpoints.id
        and operations.status in ('scheduling', 'running', 'cancelling')
    ) limit 100`.execute(store);
  return rows;
}
