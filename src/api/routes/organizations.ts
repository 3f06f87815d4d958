import { reply, route } from '../route.ts';
import { OrganizationParams } from '../schemas/fields.ts';
import { Organization } from '../schemas/organization.ts';
import { serializeOrganization } from '../serializers/organization.ts';

export const organizationRoutes = [
  route({
    method: 'GET',
    path: '/organizations/:org_id',
    permission: 'organization.read',
    summary: 'Shows an organization',
    schema: { params: OrganizationParams, response: { 200: Organization } },
    handle: async ({ organization }) => reply(200, serializeOrganization(organization)),
  }),
];
