import { type Insertable, sql, type Updateable } from 'kysely';
import type { Store, StoreTransaction } from './connection.ts';
import type { DatabaseRow, DatabasesTable } from './schema.ts';

/** The branch's databases, oldest first. */
export function listDatabases(store: Store, branch_id: string): Promise<DatabaseRow[]> {
  return store
    .selectFrom('databases')
    .selectAll()
    .where('branch_id', '=', branch_id)
    .where('deleted_at', 'is', null)
    .orderBy('id')
    .execute();
}

/** The branch's databases with those that are still to be dropped from its server: what a copy of that server holds. */
export function listDatabasesEvenDeleted(store: Store, branch_id: string): Promise<DatabaseRow[]> {
  return store.selectFrom('databases').selectAll().where('branch_id', '=', branch_id).orderBy('id').execute();
}

export function findDatabase(store: Store, branch_id: string, name: string): Promise<DatabaseRow | undefined> {
  return store
    .selectFrom('databases')
    .selectAll()
    .where('branch_id', '=', branch_id)
    .where('name', '=', name)
    .where('deleted_at', 'is', null)
    .executeTakeFirst();
}

export async function countDatabases(store: Store, branch_id: string): Promise<number> {
  const { count } = await store
    .selectFrom('databases')
    .select((eb) => eb.fn.countAll<number>().as('count'))
    .where('branch_id', '=', branch_id)
    .where('deleted_at', 'is', null)
    .executeTakeFirstOrThrow();
  return count;
}

/** Writes databases as they are. */
export async function insertDatabases(
  trx: StoreTransaction,
  databases: readonly Insertable<DatabasesTable>[],
): Promise<void> {
  if (databases.length > 0) await trx.insertInto('databases').values(databases).execute();
}

/** Writes the intent of a database; undefined when one of that name lives. */
export function insertDatabase(
  trx: StoreTransaction,
  database: Pick<Insertable<DatabasesTable>, 'branch_id' | 'name' | 'owner_name'>,
): Promise<DatabaseRow | undefined> {
  return trx
    .insertInto('databases')
    .values({ ...database, origin: 'api' })
    .onConflict((conflict) => conflict.columns(['branch_id', 'name']).where('deleted_at', 'is', null).doNothing())
    .returningAll()
    .executeTakeFirst();
}

/** Renames a database or gives it another owner. */
export function updateDatabase(
  trx: StoreTransaction,
  id: number,
  changes: Pick<Updateable<DatabasesTable>, 'name' | 'owner_name'>,
): Promise<DatabaseRow> {
  return trx
    .updateTable('databases')
    .set({ ...changes, updated_at: sql<Date>`now()` })
    .where('id', '=', id)
    .returningAll()
    .executeTakeFirstOrThrow();
}

/** Says that a database is to go; the server drops it by the next apply_config. */
export async function markDatabaseDeleted(trx: StoreTransaction, id: number): Promise<void> {
  await trx
    .updateTable('databases')
    .set({ deleted_at: sql<Date>`now()`, updated_at: sql<Date>`now()` })
    .where('id', '=', id)
    .execute();
}
