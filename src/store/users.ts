import { sql } from 'kysely';
import type { UserId } from '../domain/ids.ts';
import type { Store, StoreTransaction } from './connection.ts';
import type { UserRow } from './schema.ts';

/** Any constant: whoever makes a user or invites one waits, so that no invitation is missed by the user whom it is for. */
const PEOPLE_LOCK = 7_432_004;

/** Until the transaction ends nobody else makes a user or invites one. */
export async function lockPeople(trx: StoreTransaction): Promise<void> {
  await sql`select pg_advisory_xact_lock(${PEOPLE_LOCK})`.execute(trx);
}

/** @param user `email_verified` says that somebody who can be trusted with it vouches for the address */
export function insertUser(
  trx: StoreTransaction,
  user: Pick<UserRow, 'email' | 'name' | 'email_verified'>,
): Promise<UserRow> {
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

/** Somebody who has an account, and how that person may log in. */
export interface UserView extends UserRow {
  readonly has_password: boolean;
  readonly sessions: number;
}

/** Everybody who has an account, oldest first. */
export async function listUsers(store: Store): Promise<UserView[]> {
  const { rows } = await sql<UserView>`
    select users.*,
      exists (
        select from coppice_auth.accounts where user_id = users.id and provider_id = 'credential'
      ) as has_password,
      (select count(*) from coppice_auth.sessions where user_id = users.id and expires_at > now()) as sessions
    from users order by created_at, email`.execute(store);
  return rows;
}

/** Somebody who can be trusted with it said that the address is this user's. */
export async function vouchForAddress(trx: StoreTransaction, id: UserId): Promise<void> {
  await trx.updateTable('users').set({ email_verified: true }).where('id', '=', id).execute();
}
