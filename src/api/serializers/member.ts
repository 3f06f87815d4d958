import type { InvitationRow, MembershipRow } from '../../store/schema.ts';
import type { Invitation, Member } from '../schemas/member.ts';
import { timestamp } from './timestamp.ts';

export function serializeMember(row: MembershipRow): Member {
  return {
    id: row.id,
    user_id: row.user_id,
    org_id: row.organization_id,
    role: row.role,
    joined_at: timestamp(row.joined_at),
  };
}

export function serializeInvitation(row: InvitationRow): Invitation {
  return {
    id: row.id,
    email: row.email,
    org_id: row.organization_id,
    invited_by: row.invited_by,
    invited_at: timestamp(row.invited_at),
    role: row.role,
  };
}
