import { CoppiceError } from '../domain/errors.ts';
import type { OrganizationId } from '../domain/ids.ts';
import { findMember, hasAnotherAdmin, updateMemberRole } from '../store/memberships.ts';
import { lockMembers } from '../store/organizations.ts';
import type { MembershipRow } from '../store/schema.ts';
import type { MembershipRole } from './caller.ts';
import type { ActionContext } from './context.ts';

/** Gives a member another role, from the next request on. The last admin stays one: `last_admin`. */
export function updateMember(
  { store }: Pick<ActionContext, 'store'>,
  { organization_id, member_id, role }: { organization_id: OrganizationId; member_id: string; role: MembershipRole },
): Promise<MembershipRow> {
  return store.transaction().execute(async (trx) => {
    await lockMembers(trx, organization_id);
    const member = await findMember(trx, organization_id, member_id);
    if (!member) throw new CoppiceError('not_found', { noun: 'member' });
    if (member.role === 'admin' && role !== 'admin' && !(await hasAnotherAdmin(trx, member))) {
      throw new CoppiceError('last_admin', { verb: 'demote' });
    }
    return updateMemberRole(trx, member.id, role);
  });
}
