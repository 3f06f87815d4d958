import { acceptInvitations, isInvited } from '../store/invitations.ts';
import { findUserByEmail, insertUser, lockPeople } from '../store/users.ts';
import type { ActionContext } from './context.ts';
import { makeOrganization } from './make-organization.ts';

/**
 * Makes an account for somebody whose address an issuer of single sign-on vouches for: a member of all that invited the address.
 * Without an invitation there is one only for those whom everybody knows (`anybody`), with an organisation of their own. Nothing is
 * changed where there is an account.
 */
export function welcomePerson(
  { store }: Pick<ActionContext, 'store'>,
  { email, name, anybody }: { readonly email: string; readonly name: string; readonly anybody: boolean },
): Promise<void> {
  return store.transaction().execute(async (trx) => {
    await lockPeople(trx);
    if (await findUserByEmail(trx, email)) return;
    if (!anybody && !(await isInvited(trx, email))) return;
    const user = await insertUser(trx, { email, name, email_verified: true });
    const organizations = await acceptInvitations(trx, user);
    if (organizations.length === 0) await makeOrganization(trx, { name: name || email, user_id: user.id });
  });
}
