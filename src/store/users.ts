import { sql } from 'kysely';
import type { Store, StoreTransaction } from './connection.ts';
import type { UserRow } from './schema.ts';

/** Any constant: whoever makes a user or invites one waits, so that no invitation is missed by the user whom it is for. */
const PEOPLE_LOCK = 7_432_004;

/** Until the transaction ends nobody else makes a user or invites one. */
export async function lockPeople(trx: StoreTransaction): Promise<void> {
  await sql`select pg_advisory_xact_lock(${PEOPLE_LOCK})`.execute(trx);
}

export function insertUser(trx: StoreTransaction, user: Pick<UserRow, 'email' | 'name'>): Promise<UserRow> {
  return trx.insertInto('users').values(user).returningAll().executeTakeFirstOrThrow();
}

/** The user who was made first; undefined in an empty installation. */
export function findFirstUser(store: Store): Promise<UserRow | undefined> {
  return store.selectFrom('users').selectAll().orderBy('created_at').limit(1).executeTakeFirst();
}

/** The user with this address, whatever its case. */
export function findUserByEmail(store: Store, email: string): Promise<UserRow | undefined> {
  return store.selectFrom('users').selectAll().where(sql<boolean>`lower(email) = lower(${email})`).executeTakeFirst();
}
