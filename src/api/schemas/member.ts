import Type, { type Static } from 'typebox';
import { LIMITS } from '../../domain/limits.ts';
import { Email, Timestamp } from './fields.ts';

export const Member = Type.Object({
  id: Type.String(),
  user_id: Type.String(),
  org_id: Type.String(),
  role: Type.String(),
  joined_at: Timestamp,
});
export type Member = Static<typeof Member>;

export const Members = Type.Object({
  members: Type.Array(
    Type.Object({ member: Member, user: Type.Object({ email: Type.String(), has_mfa: Type.Boolean() }) }),
  ),
  pagination: Type.Object({
    next: Type.Optional(Type.String()),
    sort_by: Type.String(),
    sort_order: Type.String(),
  }),
});

/** As in the public API; the last two are not to be had here. `editor` is what newer clients call a member. */
const Role = Type.Enum(['admin', 'member', 'editor', 'viewer', 'collaborator']);
export type RequestedRole = Static<typeof Role>;

export const MemberUpdate = Type.Object({ role: Role });

export const Invitation = Type.Object({
  id: Type.String(),
  email: Type.String(),
  org_id: Type.String(),
  invited_by: Type.String(),
  invited_at: Timestamp,
  role: Type.String(),
});
export type Invitation = Static<typeof Invitation>;
export const Invitations = Type.Object({ invitations: Type.Array(Invitation) });

export const SentInvitations = Type.Object({
  invitations: Type.Array(
    Type.Object({
      ...Invitation.properties,
      link: Type.Optional(Type.String({ description: 'Lets the person in, once; only where no mail is sent' })),
      mail_sent: Type.Optional(Type.Boolean({ description: 'Whether the mail server took the mail with the link' })),
    }),
  ),
});

export const InvitationsCreate = Type.Object({
  invitations: Type.Array(Type.Object({ email: Email, role: Role }), {
    minItems: 1,
    maxItems: LIMITS.invitations_per_call,
  }),
});
