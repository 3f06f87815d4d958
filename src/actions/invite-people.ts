import { CoppiceError } from '../domain/errors.ts';
import type { OrganizationId } from '../domain/ids.ts';
import { LIMITS } from '../domain/limits.ts';
import { acceptInvitations, countOpenInvitations, findInvited, upsertInvitation } from '../store/invitations.ts';
import type { InvitationRow } from '../store/schema.ts';
import { lockPeople } from '../store/users.ts';
import type { MembershipRole, PersonalCaller } from './caller.ts';
import type { ActionContext } from './context.ts';

/**
 * Invites people by address. Who has an account is a member at once; who gets one later is a member from then on. One who is a
 * member already is `member_exists`, and then nobody is invited.
 */
export function invitePeople(
  { store }: Pick<ActionContext, 'store'>,
  { user }: PersonalCaller,
  organization_id: OrganizationId,
  people: readonly { email: string; role: MembershipRole }[],
): Promise<InvitationRow[]> {
  return store.transaction().execute(async (trx) => {
    await lockPeople(trx);
    const invitations: InvitationRow[] = [];
    for (const { email, role } of people) {
      const invited = await findInvited(trx, organization_id, email);
      if (invited?.is_member) throw new CoppiceError('member_exists', { email });
      invitations.push(await upsertInvitation(trx, { organization_id, email, role, invited_by: user.id }));
      if (invited) await acceptInvitations(trx, invited);
    }
    const limit = LIMITS.open_invitations_per_organization;
    if ((await countOpenInvitations(trx, organization_id)) > limit)
      throw new CoppiceError('invitations_limit', { limit });
    return invitations;
  });
}
