import { sql } from 'kysely';
import type { UserId } from '../domain/ids.ts';
import type { Attribution } from './attributed.ts';
import type { Store, StoreTransaction } from './connection.ts';

/** How the library that people log in with calls a password among the ways to be a person. */
const PASSWORD_PROVIDER = 'credential';

/** Gives a person this password, by its hash, in place of any other. */
export async function replacePassword(trx: StoreTransaction, user_id: UserId, password: string): Promise<void> {
  await trx
    .deleteFrom('coppice_auth.accounts')
    .where('user_id', '=', user_id)
    .where('provider_id', '=', PASSWORD_PROVIDER)
    .execute();
  await trx
    .insertInto('coppice_auth.accounts')
    .values({ user_id, provider_id: PASSWORD_PROVIDER, account_id: user_id, password })
    .execute();
}

/** Takes a person's second factor away. Gives whether there was one. */
export async function dropSecondFactor(trx: StoreTransaction, user_id: UserId): Promise<boolean> {
  const dropped = await trx
    .deleteFrom('coppice_auth.two_factors')
    .where('user_id', '=', user_id)
    .returning('id')
    .executeTakeFirst();
  await trx.updateTable('users').set({ two_factor_enabled: false }).where('id', '=', user_id).execute();
  return dropped !== undefined;
}

/** Whether anybody could log in with a password. */
export async function anybodyHasPassword(store: Store): Promise<boolean> {
  const { rows } = await sql<{ any: boolean }>`
    select exists (select from coppice_auth.accounts where provider_id = ${PASSWORD_PROVIDER}) as any`.execute(store);
  return rows[0]!.any;
}

/**
 * Marks a code of TOTP as shown by a person; false when it was before. The caller forgets it after a while, when it is
 * none any more.
 */
export async function useCode(
  store: Store,
  { user_id, code_hash, expires_at }: { user_id: UserId; code_hash: Buffer; expires_at: Date },
): Promise<boolean> {
  const used = await store
    .insertInto('coppice_auth.used_codes')
    .values({ user_id, code_hash, expires_at })
    .onConflict((conflict) => conflict.columns(['user_id', 'code_hash']).doNothing())
    .returning('user_id')
    .executeTakeFirst();
  return used !== undefined;
}

/** What an entry of the audit log says of a login. */
export type LoginEntry = Pick<Attribution, 'action' | 'address' | 'user_agent' | 'request_id' | 'target'>;

/**
 * Writes into the audit log of each organisation of a person that the person logged in, out, or tried in vain. It changes
 * nothing that triggers could see. Nothing is written for an address that nobody has.
 */
export async function recordLogin(
  store: Store,
  person: { id: UserId } | { email: string },
  entry: LoginEntry,
): Promise<void> {
  const found = 'id' in person ? sql`u.id = ${person.id}` : sql`lower(u.email) = lower(${person.email})`;
  await sql`
    insert into audit_log (organization_id, request_id, actor_kind, user_id, user_email, address, user_agent, action, target)
    select m.organization_id, ${entry.request_id ?? null}, 'session', u.id, u.email, ${entry.address ?? null},
      ${entry.user_agent ?? null}, ${entry.action}, ${JSON.stringify(entry.target ?? {})}::jsonb
    from users u left join memberships m on m.user_id = u.id
    where ${found}`.execute(store);
}
