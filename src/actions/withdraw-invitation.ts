import { CoppiceError } from '../domain/errors.ts';
import type { OrganizationId } from '../domain/ids.ts';
import { deleteOpenInvitation } from '../store/invitations.ts';
import type { InvitationRow } from '../store/schema.ts';
import type { ActionContext } from './context.ts';

/** Takes an invitation back; `not_found` when there is none, or when it was accepted. */
export async function withdrawInvitation(
  { store }: Pick<ActionContext, 'store'>,
  { organization_id, invitation_id }: { organization_id: OrganizationId; invitation_id: string },
): Promise<InvitationRow> {
  const invitation = await deleteOpenInvitation(store, organization_id, invitation_id);
  if (!invitation) throw new CoppiceError('not_found', { noun: 'invitation' });
  return invitation;
}
