import Type from 'typebox';
import { personOf } from '../../actions/caller.ts';
import { removeMember } from '../../actions/remove-member.ts';
import { updateMember } from '../../actions/update-member.ts';
import { CoppiceError } from '../../domain/errors.ts';
import { LIMITS } from '../../domain/limits.ts';
import { findMember, listMembers } from '../../store/memberships.ts';
import { ANY_KEY, pageOf, parseListCursor, sortColumn, TIME_KEY, UUID_KEY } from '../list-cursor.ts';
import { membershipRole } from '../requested-role.ts';
import { reply, route } from '../route.ts';
import { inOrganization, OrganizationParams, Uuid } from '../schemas/fields.ts';
import { Member, Members, MemberUpdate } from '../schemas/member.ts';
import { serializeMember } from '../serializers/member.ts';

const MEMBER_ORDER = { columns: { email: ANY_KEY, role: ANY_KEY, joined_at: TIME_KEY }, id: UUID_KEY };
const MemberParams = inOrganization({ member_id: Uuid });

export const memberRoutes = [
  route({
    method: 'GET',
    path: '/organizations/:org_id/members',
    permission: 'member.read',
    summary: 'Lists members, a page at a time',
    schema: {
      params: OrganizationParams,
      querystring: Type.Object({
        sort_by: Type.Optional(Type.Enum(['email', 'role', 'joined_at'])),
        sort_order: Type.Optional(Type.Enum(['asc', 'desc'])),
        cursor: Type.Optional(Type.String({ description: 'Where the page before ended' })),
        limit: Type.Optional(Type.Integer({ minimum: 1, maximum: LIMITS.members_page_max })),
      }),
      response: { 200: Members },
    },
    handle: async ({ context, organization, query }) => {
      const after = query.cursor ? parseListCursor(query.cursor, MEMBER_ORDER) : undefined;
      const sort_by = sortColumn(query.sort_by, after, 'joined_at');
      const { limit = LIMITS.members_page_max, sort_order = 'desc' } = query;
      // One more than asked for tells whether there is a next page.
      const options = { sort_by, sort_order, after, limit: limit + 1 };
      const rows = await listMembers(context.store, organization.id, options);
      const { page, pagination } = pageOf(rows, limit, { sort_by, sort_order });
      return reply(200, {
        members: page.map((row) => ({
          member: serializeMember(row),
          user: { email: row.email, has_mfa: row.two_factor_enabled },
        })),
        pagination,
      });
    },
  }),
  route({
    method: 'GET',
    path: '/organizations/:org_id/members/:member_id',
    permission: 'member.read',
    summary: 'Shows a member',
    schema: { params: MemberParams, response: { 200: Member } },
    handle: async ({ context, organization, params }) => {
      const member = await findMember(context.store, organization.id, params.member_id);
      if (!member) throw new CoppiceError('not_found', { noun: 'member' });
      return reply(200, serializeMember(member));
    },
  }),
  route({
    method: 'PATCH',
    path: '/organizations/:org_id/members/:member_id',
    permission: 'member.update',
    summary: 'Gives a member another role',
    schema: { params: MemberParams, body: MemberUpdate, response: { 200: Member } },
    handle: async ({ context, organization, params, body }) => {
      const change = { organization_id: organization.id, member_id: params.member_id, role: membershipRole(body.role) };
      return reply(200, serializeMember(await updateMember(context, change)));
    },
  }),
  route({
    method: 'DELETE',
    path: '/organizations/:org_id/members/:member_id',
    permission: 'member.remove',
    summary: 'Takes a member out of the organization; members take out themselves, admins everybody',
    schema: { params: MemberParams, response: { 200: Type.Object({}) } },
    handle: async ({ context, caller, organization, params }) => {
      await removeMember(context, personOf(caller), { organization_id: organization.id, member_id: params.member_id });
      return reply(200, {});
    },
  }),
];
