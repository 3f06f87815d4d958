import { hashApiKey, newApiKey } from '../domain/credentials.ts';
import { CoppiceError } from '../domain/errors.ts';
import type { OrganizationId } from '../domain/ids.ts';
import { insertPersonalKey } from '../store/api-keys.ts';
import { acceptInvitations } from '../store/invitations.ts';
import type { UserRow } from '../store/schema.ts';
import { findUserByEmail, insertUser, lockPeople } from '../store/users.ts';
import type { ActionContext } from './context.ts';
import { makeOrganization } from './make-organization.ts';

export interface UserRequest {
  readonly email: string;
  readonly name: string;
  /** Name of an organisation to make for the user; one is made anyway for a user whom nobody invited. */
  readonly organization?: string;
  readonly key_name: string;
}

/**
 * Makes a user, who becomes a member of every organisation that has invited the address, with a first personal key, whose
 * secret is told this once. `user_exists` when somebody has the address.
 */
export function createUser(
  { store }: Pick<ActionContext, 'store'>,
  { email, name, organization, key_name }: UserRequest,
): Promise<{ user: UserRow; organization_ids: OrganizationId[]; secret: string }> {
  const secret = newApiKey();
  return store.transaction().execute(async (trx) => {
    await lockPeople(trx);
    if (await findUserByEmail(trx, email)) throw new CoppiceError('user_exists', { email });
    const user = await insertUser(trx, { email, name });
    const organization_ids = await acceptInvitations(trx, user);
    if (organization !== undefined || organization_ids.length === 0) {
      const made = await makeOrganization(trx, { name: organization ?? (name || email), user_id: user.id });
      organization_ids.push(made.id);
    }
    await insertPersonalKey(trx, { user_id: user.id, name: key_name, secret_hash: hashApiKey(secret) });
    return { user, organization_ids, secret };
  });
}
