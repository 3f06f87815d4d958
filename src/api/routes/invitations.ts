import { personOf } from '../../actions/caller.ts';
import { invitePeople } from '../../actions/invite-people.ts';
import { withdrawInvitation } from '../../actions/withdraw-invitation.ts';
import { LIMITS } from '../../domain/limits.ts';
import { listInvitations } from '../../store/invitations.ts';
import { membershipRole } from '../requested-role.ts';
import { reply, route } from '../route.ts';
import { inOrganization, OrganizationParams, Uuid } from '../schemas/fields.ts';
import { Invitation, Invitations, InvitationsCreate, SentInvitations } from '../schemas/member.ts';
import { serializeInvitation } from '../serializers/member.ts';

export const invitationRoutes = [
  route({
    method: 'GET',
    path: '/organizations/:org_id/invitations',
    permission: 'invitation.list',
    summary: 'Lists invitations, open and accepted ones, newest first',
    schema: { params: OrganizationParams, response: { 200: Invitations } },
    handle: async ({ context, organization }) => {
      const rows = await listInvitations(context.store, organization.id, LIMITS.open_invitations_per_organization);
      return reply(200, { invitations: rows.map(serializeInvitation) });
    },
  }),
  route({
    method: 'POST',
    path: '/organizations/:org_id/invitations',
    permission: 'invitation.write',
    summary: 'Invites people by e-mail address; who has an account is a member at once, the others get a link',
    schema: { params: OrganizationParams, body: InvitationsCreate, response: { 200: SentInvitations } },
    handle: async ({ context, caller, organization, body }) => {
      const people = body.invitations.map(({ email, role }) => ({ email, role: membershipRole(role) }));
      const sent = await invitePeople(context, personOf(caller), organization, people);
      return reply(200, {
        invitations: sent.map(({ row, ...told }) => ({ ...serializeInvitation(row), ...told })),
      });
    },
  }),
  route({
    method: 'DELETE',
    path: '/organizations/:org_id/invitations/:invitation_id',
    permission: 'invitation.write',
    summary: 'Takes an invitation back that nobody has accepted',
    schema: { params: inOrganization({ invitation_id: Uuid }), response: { 200: Invitation } },
    handle: async ({ context, organization, params }) => {
      const named = { organization_id: organization.id, invitation_id: params.invitation_id };
      return reply(200, serializeInvitation(await withdrawInvitation(context, named)));
    },
  }),
];
