import { CoppiceError } from '../domain/errors.ts';
import type { OrganizationId } from '../domain/ids.ts';
import { deleteMembership, findMember, hasAnotherAdmin } from '../store/memberships.ts';
import { lockMembers } from '../store/organizations.ts';
import { requireRole } from './access.ts';
import { type PersonalCaller, roleIn } from './caller.ts';
import type { ActionContext } from './context.ts';

/**
 * Takes a member out of the organisation, from the next request on. Admins remove anybody, everybody else only themselves; the
 * last admin stays: `last_admin`. Keys of the organisation and of its projects that the member made stay valid.
 */
export async function removeMember(
  { store }: Pick<ActionContext, 'store'>,
  caller: PersonalCaller,
  { organization_id, member_id }: { organization_id: OrganizationId; member_id: string },
): Promise<void> {
  await store.transaction().execute(async (trx) => {
    await lockMembers(trx, organization_id);
    const member = await findMember(trx, organization_id, member_id);
    if (member?.user_id !== caller.user.id) requireRole(roleIn(caller, organization_id) ?? 'member', 'admin');
    if (!member) throw new CoppiceError('not_found', { noun: 'member' });
    if (member.role === 'admin' && !(await hasAnotherAdmin(trx, member))) {
      throw new CoppiceError('last_admin', { verb: 'remove' });
    }
    await deleteMembership(trx, member.id);
  });
}
