import { sql } from 'kysely';
import type { BranchId, EndpointId, ProjectId } from '../domain/ids.ts';
import type { Store, StoreTransaction } from './connection.ts';

/** Roles that are made for those who come with a token, and what lets them in. */

/** A branch that lacks a role, and how many it has. */
export interface MissingRole {
  readonly branch_id: BranchId;
  readonly name: string;
  readonly roles: number;
}

/**
 * Locks the roles of branches, and of deleted ones that may come back, and tells which of the names they lack.
 *
 * @param branch_id undefined: all branches of the project
 */
export async function findMissingRoles(
  trx: StoreTransaction,
  project_id: ProjectId,
  branch_id: BranchId | undefined,
  names: readonly string[],
): Promise<MissingRole[]> {
  const { rows: branches } = await sql<{ id: BranchId }>`
    select id from branches
    where project_id = ${project_id} and (deleted_at is null or deletion_method is not null) and ephemeral_of is null
      and (${branch_id ?? null}::text is null or id = ${branch_id ?? null})
    order by id for no key update`.execute(trx);
  const { rows } = await sql<MissingRole>`
    select branch_id, wanted.name,
      (select count(*) from roles where roles.branch_id = ids.branch_id and deleted_at is null) as roles
    from unnest(${branches.map(({ id }) => id)}::text[]) as ids (branch_id)
    cross join unnest(${[...names]}::text[]) as wanted (name)
    where not exists (
      select from roles
      where roles.branch_id = ids.branch_id and roles.name = wanted.name and roles.deleted_at is null
    )
    order by branch_id, wanted.name`.execute(trx);
  return rows;
}

export interface NewTokenRole {
  readonly branch_id: BranchId;
  readonly name: string;
  readonly verifier: string;
  readonly sealed_password: Buffer;
}

/** Rows of one statement: its parameters are counted by a word. */
const ROWS_AT_ONCE = 1000;

/**
 * Writes roles that may log in and have what they are granted, and says that the roles of their branches changed. One of
 * the same name that is still to be dropped comes back to life, with what it has.
 */
export async function insertTokenRoles(trx: StoreTransaction, roles: readonly NewTokenRole[]): Promise<void> {
  for (let at = 0; at < roles.length; at += ROWS_AT_ONCE) {
    const rows = roles.slice(at, at + ROWS_AT_ONCE).map((role) => ({ ...role, origin: 'token' as const }));
    await trx
      .insertInto('roles')
      .values(rows)
      .onConflict((conflict) =>
        conflict.columns(['branch_id', 'name']).doUpdateSet((eb) => ({
          origin: eb.ref('excluded.origin'),
          can_login: true,
          verifier: eb.ref('excluded.verifier'),
          sealed_password: eb.ref('excluded.sealed_password'),
          valid_until: null,
          deleted_at: null,
          created_at: sql<Date>`now()`,
          updated_at: sql<Date>`now()`,
        })),
      )
      .execute();
  }
  const branches = [...new Set(roles.map(({ branch_id }) => branch_id))];
  await sql`update branches set config_generation = config_generation + 1 where id = any(${branches}::text[])`.execute(
    trx,
  );
}

/** A role as it logs in to the server of an endpoint. */
export interface LoginRole {
  readonly branch_id: BranchId;
  /** What the server holds, or will hold once it has started; null without a password. */
  readonly verifier: string | null;
  /** Null when the password is not stored. */
  readonly sealed_password: Buffer | null;
  readonly can_login: boolean;
  readonly valid_until: Date | null;
}

/** Undefined for an unknown role or endpoint. */
export async function findLoginRole(store: Store, id: EndpointId, name: string): Promise<LoginRole | undefined> {
  const { rows } = await sql<LoginRole>`
    select roles.branch_id, roles.sealed_password, roles.can_login, roles.valid_until,
      case when endpoints.observed_state = 'running' and timelines.applied_config_generation < branches.config_generation
        then coalesce(roles.applied_verifier, roles.verifier) else roles.verifier end as verifier
    from endpoints
    join branches on branches.id = endpoints.branch_id
    join timelines on timelines.id = branches.timeline_id
    join roles on roles.branch_id = branches.id and roles.name = ${name} and roles.deleted_at is null
    where endpoints.id = ${id} and endpoints.deleted_at is null`.execute(store);
  return rows[0];
}
