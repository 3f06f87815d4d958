import { sql } from 'kysely';
import type { BranchId, EndpointId, TimelineId } from '../domain/ids.ts';
import type { Store, StoreTransaction } from './connection.ts';
import type { DatabaseRow, RoleRow } from './schema.ts';

/** Roles and databases as intent, and what a server was seen to hold. */

/** A role as read from `pg_authid`. */
export interface SeenRole {
  readonly name: string;
  readonly verifier: string | null;
  readonly can_login: boolean;
  readonly valid_until: Date | null;
}

/** A database as read from `pg_database`. */
export interface SeenDatabase {
  readonly name: string;
  readonly owner_name: string;
}

/** What the branch's server should hold, tombstones included, with the generation that this is. */
export async function findDesiredConfig(
  store: Store,
  branchId: BranchId,
): Promise<{ generation: number; roles: RoleRow[]; databases: DatabaseRow[] }> {
  // One snapshot: a role and the generation that it came with belong together.
  return store
    .transaction()
    .setIsolationLevel('repeatable read')
    .execute(async (trx) => ({
      generation: (
        await trx
          .selectFrom('branches')
          .select('config_generation')
          .where('id', '=', branchId)
          .executeTakeFirstOrThrow()
      ).config_generation,
      roles: await trx.selectFrom('roles').selectAll().where('branch_id', '=', branchId).orderBy('id').execute(),
      databases: await trx
        .selectFrom('databases')
        .selectAll()
        .where('branch_id', '=', branchId)
        .orderBy('id')
        .execute(),
    }));
}

/** Records which passwords open the server now. */
export async function observePasswords(store: Store | StoreTransaction, applied: readonly RoleRow[]): Promise<void> {
  for (const { id, verifier, applied_verifier, deleted_at } of applied) {
    if (deleted_at || applied_verifier === verifier) continue;
    await store.updateTable('roles').set({ applied_verifier: verifier }).where('id', '=', id).execute();
  }
}

/** Records that the server holds what was desired: tombstones that were applied go away. */
export async function observeConfig(
  store: Store,
  branchId: BranchId,
  applied: { roles: readonly RoleRow[]; databases: readonly DatabaseRow[] },
): Promise<void> {
  await store.transaction().execute(async (trx) => {
    // As whoever learns from the branch's server does first.
    await trx.selectFrom('branches').select('id').where('id', '=', branchId).forNoKeyUpdate().execute();
    for (const role of applied.roles) {
      if (role.deleted_at) {
        // Not when the name was taken again meanwhile.
        await trx.deleteFrom('roles').where('id', '=', role.id).where('deleted_at', '=', role.deleted_at).execute();
      }
    }
    await observePasswords(trx, applied.roles);
    for (const database of applied.databases) {
      if (database.deleted_at) await trx.deleteFrom('databases').where('id', '=', database.id).execute();
      else if (database.applied_name !== database.name || database.applied_owner_name !== database.owner_name) {
        await trx
          .updateTable('databases')
          .set({ applied_name: database.name, applied_owner_name: database.owner_name })
          .where('id', '=', database.id)
          .execute();
      }
    }
  });
}

/** Which branch an endpoint's server is of, and in which of its lives. */
export interface ServedBranch {
  readonly endpoint_id: EndpointId;
  readonly branch_id: BranchId;
  readonly timeline_id: TimelineId;
  /** When the server was started. */
  readonly started_at: Date | null;
  /** The branch's generation. */
  readonly generation: number;
}

/**
 * What there is to know before a look into an endpoint's server. Undefined when nothing is to be learnt: no branch has
 * that timeline any more, or an intent waits to be applied, so that the server is behind.
 */
export async function findServedBranch(
  store: Store,
  endpointId: EndpointId,
): Promise<(ServedBranch & { readonly compute: { driver: string; id: string } }) | undefined> {
  const { rows } = await sql<ServedBranch & { compute: { driver: string; id: string } }>`
    select endpoints.id as endpoint_id, endpoints.compute, endpoints.started_at,
      branches.id as branch_id, branches.timeline_id, branches.config_generation as generation
    from endpoints
    join branches on branches.timeline_id = endpoints.serves_timeline_id
    join timelines on timelines.id = branches.timeline_id
    where endpoints.id = ${endpointId} and endpoints.type = 'read_write' and endpoints.compute is not null and branches.deleted_at is null
      and timelines.applied_config_generation >= branches.config_generation`.execute(store);
  return rows[0];
}

/**
 * Takes over what customers changed in SQL. Does nothing when the branch's server or an intent changed since the look:
 * what was seen is then no news.
 *
 * @returns whether it was taken over
 */
export async function learnConfig(
  store: Store,
  at: ServedBranch,
  seen: { roles: readonly SeenRole[]; databases: readonly SeenDatabase[] },
): Promise<boolean> {
  const { branch_id: branchId } = at;
  return store.transaction().execute(async (trx) => {
    const { rows } = await sql`
      select from branches
      join timelines on timelines.id = branches.timeline_id
      join endpoints on endpoints.serves_timeline_id = branches.timeline_id
      where branches.id = ${branchId} and branches.deleted_at is null
        and branches.timeline_id = ${at.timeline_id} and branches.config_generation = ${at.generation}
        and timelines.applied_config_generation >= branches.config_generation
        and endpoints.id = ${at.endpoint_id} and endpoints.started_at is not distinct from ${at.started_at}
      for update of branches`.execute(trx);
    if (rows.length === 0) return false;
    await learnRoles(trx, branchId, seen.roles);
    await learnDatabases(trx, branchId, seen.databases);
    return true;
  });
}

async function learnRoles(trx: StoreTransaction, branchId: BranchId, seen: readonly SeenRole[]): Promise<void> {
  const known = await trx.selectFrom('roles').selectAll().where('branch_id', '=', branchId).execute();
  const names = new Set(seen.map((role) => role.name));
  const gone = known.filter((role) => !names.has(role.name)).map((role) => role.id);
  if (gone.length > 0) await trx.deleteFrom('roles').where('id', 'in', gone).execute();
  for (const { name, verifier, can_login, valid_until } of seen) {
    const old = known.find((role) => role.name === name);
    if (!old) {
      await trx
        .insertInto('roles')
        .values({
          branch_id: branchId,
          name,
          origin: 'sql',
          can_login,
          verifier,
          applied_verifier: verifier,
          valid_until,
        })
        .execute();
      continue;
    }
    const samePassword = old.verifier === verifier;
    const sameRest = old.can_login === can_login && old.valid_until?.getTime() === valid_until?.getTime();
    if (samePassword && sameRest) continue;
    await trx
      .updateTable('roles')
      .set({
        can_login,
        valid_until,
        verifier,
        applied_verifier: verifier,
        // A password that was set in SQL is not known to us, and the old one opens nothing any more.
        ...(samePassword ? {} : { sealed_password: null, updated_at: sql<Date>`clock_timestamp()` }),
      })
      .where('id', '=', old.id)
      .execute();
  }
}

async function learnDatabases(trx: StoreTransaction, branchId: BranchId, seen: readonly SeenDatabase[]): Promise<void> {
  const known = await trx.selectFrom('databases').selectAll().where('branch_id', '=', branchId).execute();
  const names = new Set(seen.map((database) => database.name));
  const gone = known.filter((database) => !names.has(database.name)).map((database) => database.id);
  if (gone.length > 0) await trx.deleteFrom('databases').where('id', 'in', gone).execute();
  for (const { name, owner_name } of seen) {
    const old = known.find((database) => database.name === name);
    if (!old) {
      await trx
        .insertInto('databases')
        .values({
          branch_id: branchId,
          name,
          owner_name,
          origin: 'sql',
          applied_name: name,
          applied_owner_name: owner_name,
        })
        .execute();
    } else if (old.owner_name !== owner_name) {
      await trx
        .updateTable('databases')
        .set({ owner_name, applied_owner_name: owner_name, updated_at: sql<Date>`clock_timestamp()` })
        .where('id', '=', old.id)
        .execute();
    }
  }
}

/**
 * Makes the roles and databases of a branch those of an earlier state that its server was made at. A role that is still
 * known keeps its password, which the next apply_config sets: whoever can enter now can enter then.
 */
export async function adoptConfig(
  trx: StoreTransaction,
  branchId: BranchId,
  seen: { roles: readonly (SeenRole & { readonly privileged: boolean })[]; databases: readonly SeenDatabase[] },
): Promise<void> {
  await trx.selectFrom('branches').select('id').where('id', '=', branchId).forNoKeyUpdate().execute();
  const known = await trx.selectFrom('roles').selectAll().where('branch_id', '=', branchId).execute();
  // Dropped since, which is none of the earlier state's business.
  await trx.deleteFrom('databases').where('branch_id', '=', branchId).where('deleted_at', 'is not', null).execute();
  await learnDatabases(trx, branchId, seen.databases);
  const names = seen.roles.map((role) => role.name);
  await trx
    .deleteFrom('roles')
    .where('branch_id', '=', branchId)
    .where('name', '<>', sql<string>`all(${names}::text[])`)
    .execute();
  for (const { privileged, ...role } of seen.roles) {
    const kept = known.find(({ name, deleted_at }) => name === role.name && !deleted_at);
    const now = kept
      ? { applied_verifier: role.verifier }
      : { ...role, applied_verifier: role.verifier, sealed_password: null, deleted_at: null };
    await trx
      .insertInto('roles')
      .values({ ...role, applied_verifier: role.verifier, branch_id: branchId, origin: privileged ? 'api' : 'sql' })
      .onConflict((conflict) => conflict.columns(['branch_id', 'name']).doUpdateSet(now))
      .execute();
  }
}
