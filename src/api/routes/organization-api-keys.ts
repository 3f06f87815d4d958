import Type from 'typebox';
import { personOf } from '../../actions/caller.ts';
import { createOrganizationKey } from '../../actions/create-organization-key.ts';
import { revokeOrganizationKey } from '../../actions/revoke-organization-key.ts';
import { listOrganizationKeys } from '../../store/api-keys.ts';
import { reply, route } from '../route.ts';
import { CreatedApiKey, CreateOrganizationKeyBody, KeyId, ListedApiKey, RevokedApiKey } from '../schemas/api-key.ts';
import { inOrganization, OrganizationParams } from '../schemas/fields.ts';
import { serializeCreatedApiKey, serializeListedApiKey, serializeRevokedApiKey } from '../serializers/api-key.ts';

export const organizationApiKeyRoutes = [
  route({
    method: 'GET',
    path: '/organizations/:org_id/api_keys',
    permission: 'organization_key.list',
    summary: "Lists the organization's API keys and those of its projects",
    schema: { params: OrganizationParams, response: { 200: Type.Array(ListedApiKey) } },
    handle: async ({ context, organization }) => {
      const keys = await listOrganizationKeys(context.store, organization.id);
      return reply(
        200,
        keys.map((key) => serializeListedApiKey(key, key.creator)),
      );
    },
  }),
  route({
    method: 'POST',
    path: '/organizations/:org_id/api_keys',
    permission: 'organization_key.create',
    summary: 'Makes an API key of the organization, or of one of its projects; its secret is told this once',
    schema: { params: OrganizationParams, body: CreateOrganizationKeyBody, response: { 200: CreatedApiKey } },
    handle: async ({ context, caller, organization, body }) => {
      const { project_id, key_name: name, read_only } = body;
      const wanted = { organization_id: organization.id, project_id, name, read_only };
      const { key, secret } = await createOrganizationKey(context, personOf(caller), wanted);
      return reply(200, serializeCreatedApiKey(key, secret));
    },
  }),
  route({
    method: 'DELETE',
    path: '/organizations/:org_id/api_keys/:key_id',
    permission: 'organization_key.revoke',
    summary: 'Revokes an API key of the organization or of one of its projects, at once and for good',
    schema: { params: inOrganization({ key_id: KeyId }), response: { 200: RevokedApiKey } },
    handle: async ({ context, organization, params }) => {
      const key = { organization_id: organization.id, key_id: params.key_id };
      return reply(200, serializeRevokedApiKey(await revokeOrganizationKey(context, key)));
    },
  }),
];
