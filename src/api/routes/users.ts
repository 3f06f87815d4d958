import Type from 'typebox';
import { organizationsOf, personOf } from '../../actions/caller.ts';
import { listOrganizations } from '../../store/organizations.ts';
import { reply, route } from '../route.ts';
import { Organization } from '../schemas/organization.ts';
import { AuthDetails, CurrentUser } from '../schemas/user.ts';
import { serializeOrganization } from '../serializers/organization.ts';
import { serializeAuthDetails, serializeCurrentUser } from '../serializers/user.ts';

export const userRoutes = [
  route({
    method: 'GET',
    path: '/users/me',
    permission: 'user.read',
    summary: 'Shows the person who calls',
    schema: { response: { 200: CurrentUser } },
    handle: async ({ caller }) => reply(200, serializeCurrentUser(personOf(caller))),
  }),
  route({
    method: 'GET',
    path: '/users/me/organizations',
    permission: 'user.list_organizations',
    summary: "Lists the caller's organizations",
    schema: { response: { 200: Type.Object({ organizations: Type.Array(Organization) }) } },
    handle: async ({ context, caller }) => {
      const organizations = await listOrganizations(context.store, organizationsOf(caller));
      return reply(200, { organizations: organizations.map(serializeOrganization) });
    },
  }),
  route({
    method: 'GET',
    path: '/auth',
    permission: 'auth.read',
    summary: 'Shows what the credential is and whose',
    schema: { response: { 200: AuthDetails } },
    handle: async ({ caller }) => reply(200, serializeAuthDetails(caller)),
  }),
];
