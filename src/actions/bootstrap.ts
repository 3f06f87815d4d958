import { sql } from 'kysely';
import { hashApiKey } from '../domain/credentials.ts';
import type { UserId } from '../domain/ids.ts';
import { findKeyByHash, insertPersonalKey } from '../store/api-keys.ts';
import { inTransaction, type Store, type StoreTransaction } from '../store/connection.ts';
import type { UserRow } from '../store/schema.ts';
import { findFirstUser, insertUser } from '../store/users.ts';
import { makeOrganization } from './make-organization.ts';

export interface BootstrapOptions {
  /** Address of the first user, when there is none yet. */
  readonly email: string;
  /** A secret that shall be a personal key of the first user. */
  readonly api_key?: string;
}

/** Any constant: two processes that start at once bootstrap one after the other. */
const BOOTSTRAP_LOCK = 7_432_002;
const BOOTSTRAP_KEY_NAME = 'bootstrap';

/**
 * Makes the first user with an organisation where there is none, and the bootstrap key valid. Run at every start.
 * Throws when the key was revoked, since a revoked key never comes back, or belongs to somebody else.
 */
export function bootstrap(store: Store, { email, api_key }: BootstrapOptions): Promise<{ user_id: UserId }> {
  return inTransaction(store, async (trx) => {
    await sql`select pg_advisory_xact_lock(${BOOTSTRAP_LOCK})`.execute(trx);
    const user = (await findFirstUser(trx)) ?? (await makeFirstUser(trx, email));
    if (api_key) await ensureKey(trx, user.id, api_key);
    return { user_id: user.id };
  });
}

async function makeFirstUser(trx: StoreTransaction, email: string): Promise<UserRow> {
  const user = await insertUser(trx, { email, name: '', email_verified: true });
  await makeOrganization(trx, { name: 'Default', user_id: user.id });
  return user;
}

async function ensureKey(trx: StoreTransaction, userId: UserId, secret: string): Promise<void> {
  const secret_hash = hashApiKey(secret);
  const known = await findKeyByHash(trx, secret_hash);
  if (!known) {
    await insertPersonalKey(trx, { user_id: userId, name: BOOTSTRAP_KEY_NAME, secret_hash });
  } else if (known.revoked_at) {
    throw new Error(`the bootstrap API key was revoked at ${known.revoked_at.toISOString()}; choose another secret`);
  } else if (known.user_id !== userId) {
    throw new Error('the bootstrap API key is the key of somebody else than the first user; choose another secret');
  }
}
