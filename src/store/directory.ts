import { sql } from 'kysely';
import type { BranchId, EndpointId, OperationId } from '../domain/ids.ts';
import { type OperationStatus, UNFINISHED_STATUSES } from '../domain/operation-kinds.ts';
import type { ObservedCompute } from '../domain/states.ts';
import { oneOf } from './any-of.ts';
import type { Store } from './connection.ts';

/** From where clients of a branch may come. */
export interface DirectoryAccess {
  /** Empty: from everywhere. */
  readonly allowed_ips: readonly string[];
  readonly block_public_connections: boolean;
}

/** Of a statement that has `branches` and `projects`. The list of a project may be for its protected branches alone. */
const ACCESS = sql<DirectoryAccess>`jsonb_build_object(
  'allowed_ips', case when branches.protected
    or (projects.settings #>> '{allowed_ips,protected_branches_only}')::boolean is not true
    then coalesce(projects.settings #> '{allowed_ips,ips}', '[]') else '[]' end,
  'block_public_connections', coalesce((projects.settings ->> 'block_public_connections')::boolean, false))`;

/** What the gateway asks about an endpoint. */
export interface DirectoryEndpoint {
  readonly id: EndpointId;
  readonly branch_id: string;
  /** The branch whose past it serves: then clients reach it by way of that branch alone. */
  readonly ephemeral_of: BranchId | null;
  readonly type: 'read_write' | 'read_only';
  readonly min_cu: number;
  readonly max_cu: number;
  readonly disabled: boolean;
  readonly access: DirectoryAccess;
  readonly observed_state: ObservedCompute;
  readonly compute: { driver: string; id: string } | null;
}

export function findDirectoryEndpoint(store: Store, id: EndpointId): Promise<DirectoryEndpoint | undefined> {
  return (
    store
      .selectFrom('endpoints')
      .innerJoin('branches', 'branches.id', 'endpoints.branch_id')
      .innerJoin('projects', 'projects.id', 'branches.project_id')
      .select(['endpoints.id', 'endpoints.branch_id', 'endpoints.disabled', 'endpoints.compute'])
      .select(ACCESS.as('access'))
      .select('branches.ephemeral_of')
      .select(['endpoints.type', 'endpoints.min_cu', 'endpoints.max_cu'])
      // A server of another timeline is on its way out: nobody is let in who comes for this branch.
      .select(
        sql<ObservedCompute>`case when endpoints.observed_state = 'running'
        and endpoints.serves_timeline_id is distinct from branches.timeline_id
        then 'stopping' else endpoints.observed_state end`.as('observed_state'),
      )
      .where('endpoints.id', '=', id)
      .where('endpoints.deleted_at', 'is', null)
      .executeTakeFirst()
  );
}

/** What the gateway asks about a branch. */
export interface DirectoryBranch {
  readonly id: BranchId;
  /** The endpoint whose running server has the branch's roles. */
  readonly running_endpoint_id: EndpointId | null;
  readonly access: DirectoryAccess;
}

export async function findDirectoryBranch(store: Store, id: BranchId): Promise<DirectoryBranch | undefined> {
  const { rows } = await sql<DirectoryBranch>`
    select branches.id, endpoints.id as running_endpoint_id, ${ACCESS} as access
    from branches join projects on projects.id = branches.project_id
    left join endpoints on endpoints.branch_id = branches.id and endpoints.type = 'read_write'
      and endpoints.deleted_at is null and endpoints.observed_state = 'running'
      and endpoints.serves_timeline_id = branches.timeline_id
    where branches.id = ${id} and branches.deleted_at is null and branches.ephemeral_of is null`.execute(store);
  return rows[0];
}

/** The running server that knows the roles of a branch first: its read_write endpoint's. */
export async function findRunningPrimary(store: Store, branch_id: string): Promise<EndpointId | undefined> {
  const row = await store
    .selectFrom('endpoints')
    .select('id')
    .where('branch_id', '=', branch_id)
    .where('type', 'in', oneOf(['read_write']))
    .where('observed_state', '=', 'running')
    .where('deleted_at', 'is', null)
    .executeTakeFirst();
  return row?.id;
}

export interface DirectoryRole {
  readonly verifier: string | null;
  readonly can_login: boolean;
  readonly valid_until: Date | null;
}

/**
 * A branch's role as its server will know it once it is reached: while the server runs and a new password waits to be
 * applied, the old one is the one that opens.
 */
export async function findDirectoryRole(
  store: Store,
  { branch_id, running, name }: { branch_id: string; running: boolean; name: string },
): Promise<DirectoryRole | undefined> {
  const { rows } = await sql<DirectoryRole>`
    select
      case when ${running} and timelines.applied_config_generation < branches.config_generation
        then coalesce(roles.applied_verifier, roles.verifier) else roles.verifier end as verifier,
      roles.can_login, roles.valid_until
    from roles
    join branches on branches.id = roles.branch_id
    join timelines on timelines.id = branches.timeline_id
    where roles.branch_id = ${branch_id} and roles.name = ${name} and roles.deleted_at is null`.execute(store);
  return rows[0];
}

/** How far a start has come. */
export interface StartProgress {
  readonly status: OperationStatus;
  readonly error: string | null;
  /** The operation has begun, and its endpoint's server runs. */
  readonly running: boolean;
  /** Why it never began: its branch did not come back from the archive. */
  readonly archive_error: string | null;
}

export async function findStartProgress(store: Store, operationId: OperationId): Promise<StartProgress | undefined> {
  const { rows } = await sql<StartProgress>`
    select operations.status, operations.error,
      operations.started_at is not null and endpoints.observed_state = 'running'
        and endpoints.serves_timeline_id = coalesce(operations.timeline_id, branches.timeline_id) as running,
      case when operations.status = 'cancelled' then (
        select coalesce(earlier.error, '') from operations earlier where earlier.call_id = operations.call_id
          and earlier.action in ('timeline_unarchive', 'tenant_reattach') and earlier.status = 'failed' limit 1
      ) end as archive_error
    from operations join endpoints on endpoints.id = operations.endpoint_id
    join branches on branches.id = endpoints.branch_id
    where operations.id = ${operationId}`.execute(store);
  return rows[0];
}

/** Whether a branch, or that of an endpoint, is in object storage, or its project is being brought back from there. */
export async function isInObjectStorage(store: Store, id: EndpointId | BranchId): Promise<boolean> {
  const { rows } = await sql`
    select from branches join timelines on timelines.id = branches.timeline_id
    where branches.id = coalesce((select branch_id from endpoints where endpoints.id = ${id}), ${id})
    and branches.deleted_at is null and (timelines.archived_at is not null or exists (
      select from operations where operations.project_id = branches.project_id
        and operations.action = 'tenant_reattach' and operations.status in (${sql.join(oneOf(UNFINISHED_STATUSES))})
    ))`.execute(store);
  return rows.length > 0;
}
