import { sql } from 'kysely';
import type { BranchId, EndpointId, ProjectId, TimelineId } from '../domain/ids.ts';
import type { Lsn } from '../domain/lsn.ts';
import type { Store, StoreTransaction } from './connection.ts';
import type { BranchRow } from './schema.ts';

/**
 * Copies of branches as they were at a point, for clients who look into the past. They are rows like those of branches,
 * since what runs and removes them is the same, but nothing that a caller sees or counts holds them.
 */

export type EphemeralBranch = Pick<BranchRow, 'id' | 'project_id' | 'timeline_id'>;

/** A point of a branch's history, as it is to be seen by one of its roles. */
export interface Viewpoint {
  readonly branch_id: BranchId;
  /** Of the branch now: positions of its earlier ones mean something else. */
  readonly timeline_id: TimelineId;
  readonly lsn: Lsn;
  readonly role: string;
}

const UNFINISHED = sql`operations.status in ('scheduling', 'running', 'cancelling')`;

/**
 * The endpoint of a copy at that point which stands or is being made, and lets the role in with the password that it has
 * now. One where the role has another is not shared: it was copied before the password was changed.
 */
export async function findEphemeralEndpoint(
  store: Store,
  { branch_id, timeline_id, lsn, role }: Viewpoint,
): Promise<EndpointId | undefined> {
  const { rows } = await sql<{ id: EndpointId }>`
    select endpoints.id
    from branches
    join timelines on timelines.id = branches.timeline_id
    join endpoints on endpoints.branch_id = branches.id and endpoints.deleted_at is null
    where branches.ephemeral_of = ${branch_id} and branches.deleted_at is null
      and branches.parent_lsn = ${lsn} and timelines.parent_id = ${timeline_id}
      and (timelines.ready_at is not null or exists (
        select from operations
        where operations.endpoint_id = endpoints.id and operations.action = 'start_compute' and ${UNFINISHED}
      ))
      and not exists (
        select from roles then_ join roles now_ on now_.branch_id = branches.ephemeral_of and now_.name = then_.name
        where then_.branch_id = branches.id and then_.name = ${role} and then_.verifier is distinct from now_.verifier
      )
    order by branches.created_at limit 1`.execute(store);
  return rows[0]?.id;
}

export async function countEphemeralBranches(store: Store, project_id: ProjectId): Promise<number> {
  const { count } = await store
    .selectFrom('branches')
    .select((eb) => eb.fn.countAll<number>().as('count'))
    .where('project_id', '=', project_id)
    .where('ephemeral_of', 'is not', null)
    .where('deleted_at', 'is', null)
    .executeTakeFirstOrThrow();
  return count;
}

/** The copies of a branch. */
export function findEphemeralBranches(store: Store, branch_id: BranchId): Promise<EphemeralBranch[]> {
  return store
    .selectFrom('branches')
    .select(['id', 'project_id', 'timeline_id'])
    .where('ephemeral_of', '=', branch_id)
    .where('deleted_at', 'is', null)
    .execute();
}

/** A copy that has not started after so long is given up. */
const START_MAX = sql`interval '5 minutes'`;

/** True of a row of `branches`: nothing is done to it and its server does not run, or it never started. */
const IS_UNUSED = sql<boolean>`branches.ephemeral_of is not null and branches.deleted_at is null
  and not exists (
    select from endpoints where endpoints.branch_id = branches.id and endpoints.deleted_at is null
      and endpoints.observed_state in ('running', 'stopping')
  )
  and (
    not exists (
      select from operations
      where operations.project_id = branches.project_id and operations.branch_id = branches.id and ${UNFINISHED}
    )
    or branches.created_at < now() - ${START_MAX} and not exists (
      select from endpoints where endpoints.branch_id = branches.id and endpoints.started_at is not null
    )
  )`;

/** Copies that nobody uses, those that were made first before the others. */
export async function findUnusedEphemeralBranches(store: Store): Promise<EphemeralBranch[]> {
  const { rows } = await sql<EphemeralBranch>`
    select branches.id, branches.project_id, branches.timeline_id from branches
    where ${IS_UNUSED} order by branches.created_at limit 100`.execute(store);
  return rows;
}

/** Whether it is still unused; true stays true behind the project's lock. */
export async function isUnusedEphemeralBranch(trx: StoreTransaction, id: BranchId): Promise<boolean> {
  const { rows } = await sql`select from branches where branches.id = ${id} and ${IS_UNUSED}`.execute(trx);
  return rows.length > 0;
}
