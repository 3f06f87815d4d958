import { hashApiKey, newApiKey } from '../domain/credentials.ts';
import { CoppiceError } from '../domain/errors.ts';
import type { OrganizationId } from '../domain/ids.ts';
import { LIMITS } from '../domain/limits.ts';
import { insertPersonalKey } from '../store/api-keys.ts';
import { acceptInvitations } from '../store/invitations.ts';
import { replaceLink } from '../store/login-links.ts';
import { replacePassword } from '../store/logins.ts';
import type { UserRow } from '../store/schema.ts';
import { findUserByEmail, insertUser, lockPeople } from '../store/users.ts';
import type { ActionContext } from './context.ts';
import { makeOrganization } from './make-organization.ts';
import { newLinkToken } from './reset-login.ts';
import { hashOf, hashOfLink } from './use-login-link.ts';

export interface UserRequest {
  readonly email: string;
  readonly name: string;
  /** Name of an organisation to make for the user; one is made anyway for a user whom nobody invited. */
  readonly organization?: string;
  /** Makes a first personal key of that name, */
  readonly key_name?: string;
  /** gives the person a password, */
  readonly password?: string;
  /** or makes a link with which the person sets one. */
  readonly link?: true;
}

interface MadeUser<R extends UserRequest> {
  readonly user: UserRow;
  readonly organization_ids: OrganizationId[];
  /** Of the key. */
  readonly secret: R['key_name'] extends string ? string : string | undefined;
  readonly link_token: string | undefined;
}

/**
 * Makes a user, who becomes a member of every organisation that has invited the address, with a first personal key, a password or
 * a link, whose secrets are told this once. `user_exists` when somebody has the address. Whoever calls runs the machine, and
 * vouches for the address.
 */
export async function createUser<R extends UserRequest>(
  { store }: Pick<ActionContext, 'store'>,
  { email, name, organization, key_name, password, link }: R,
): Promise<MadeUser<R>> {
  const secret = key_name === undefined ? undefined : newApiKey();
  const link_token = link && newLinkToken();
  const hash = password === undefined ? undefined : await hashOf(password);
  return store.transaction().execute(async (trx) => {
    await lockPeople(trx);
    if (await findUserByEmail(trx, email)) throw new CoppiceError('user_exists', { email });
    const user = await insertUser(trx, { email, name, email_verified: true });
    const organization_ids = await acceptInvitations(trx, user);
    if (organization !== undefined || organization_ids.length === 0) {
      const made = await makeOrganization(trx, { name: organization ?? (name || email), user_id: user.id });
      organization_ids.push(made.id);
    }
    if (secret !== undefined) {
      await insertPersonalKey(trx, { user_id: user.id, name: key_name!, secret_hash: hashApiKey(secret) });
    }
    if (hash !== undefined) await replacePassword(trx, user.id, hash);
    if (link_token !== undefined) {
      const expires_at = new Date(Date.now() + LIMITS.password_link_seconds * 1000);
      await replaceLink(trx, { user_id: user.id }, { token_hash: hashOfLink(link_token), expires_at, mailed: false });
    }
    return { user, organization_ids, secret: secret as MadeUser<R>['secret'], link_token };
  });
}
