import { type Insertable, sql, type Updateable } from 'kysely';
import type { Store, StoreTransaction } from './connection.ts';
import type { RoleRow, RolesTable } from './schema.ts';

/** The branch's roles, oldest first. Roles of the platform have no rows. */
export function listRoles(store: Store, branch_id: string): Promise<RoleRow[]> {
  return store
    .selectFrom('roles')
    .selectAll()
    .where('branch_id', '=', branch_id)
    .where('deleted_at', 'is', null)
    .orderBy('id')
    .execute();
}

/** The branch's roles with those that are still to be dropped from its server: what a copy of that server holds. */
export function listRolesEvenDeleted(store: Store, branch_id: string): Promise<RoleRow[]> {
  return store.selectFrom('roles').selectAll().where('branch_id', '=', branch_id).orderBy('id').execute();
}

export function findRole(store: Store, branch_id: string, name: string): Promise<RoleRow | undefined> {
  return store
    .selectFrom('roles')
    .selectAll()
    .where('branch_id', '=', branch_id)
    .where('name', '=', name)
    .where('deleted_at', 'is', null)
    .executeTakeFirst();
}

export async function countRoles(store: Store, branch_id: string): Promise<number> {
  const { count } = await store
    .selectFrom('roles')
    .select((eb) => eb.fn.countAll<number>().as('count'))
    .where('branch_id', '=', branch_id)
    .where('deleted_at', 'is', null)
    .executeTakeFirstOrThrow();
  return count;
}

/** Writes roles as they are. */
export async function insertRoles(trx: StoreTransaction, roles: readonly Insertable<RolesTable>[]): Promise<void> {
  if (roles.length > 0) await trx.insertInto('roles').values(roles).execute();
}

/**
 * Writes the intent of a role. One of the same name that is still to be dropped comes back to life; undefined when one
 * lives.
 */
export function insertRole(
  trx: StoreTransaction,
  role: Pick<Insertable<RolesTable>, 'branch_id' | 'name' | 'can_login' | 'verifier' | 'sealed_password'>,
): Promise<RoleRow | undefined> {
  const intent = { ...role, origin: 'api' as const };
  return trx
    .insertInto('roles')
    .values(intent)
    .onConflict((conflict) =>
      conflict
        .columns(['branch_id', 'name'])
        .doUpdateSet({
          ...intent,
          valid_until: null,
          deleted_at: null,
          created_at: sql<Date>`now()`,
          updated_at: sql<Date>`now()`,
        })
        .where('roles.deleted_at', 'is not', null),
    )
    .returningAll()
    .executeTakeFirst();
}

/** Gives a role another password. */
export function updateRolePassword(
  trx: StoreTransaction,
  id: number,
  secret: Pick<Updateable<RolesTable>, 'verifier' | 'sealed_password'>,
): Promise<RoleRow> {
  return trx
    .updateTable('roles')
    .set({ ...secret, valid_until: null, updated_at: sql<Date>`now()` })
    .where('id', '=', id)
    .returningAll()
    .executeTakeFirstOrThrow();
}

/** Says that a role is to go. It can no longer log in with the commit; the server drops it by the next apply_config. */
export async function markRoleDeleted(trx: StoreTransaction, id: number): Promise<void> {
  await trx
    .updateTable('roles')
    .set({ deleted_at: sql<Date>`now()`, updated_at: sql<Date>`now()` })
    .where('id', '=', id)
    .execute();
}
