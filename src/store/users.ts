import type { Store, StoreTransaction } from './connection.ts';
import type { UserRow } from './schema.ts';

export function insertUser(trx: StoreTransaction, user: Pick<UserRow, 'email' | 'name'>): Promise<UserRow> {
  return trx.insertInto('users').values(user).returningAll().executeTakeFirstOrThrow();
}

/** The user who was made first; undefined in an empty installation. */
export function findFirstUser(store: Store): Promise<UserRow | undefined> {
  return store.selectFrom('users').selectAll().orderBy('created_at').limit(1).executeTakeFirst();
}
