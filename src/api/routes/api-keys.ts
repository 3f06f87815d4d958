import Type from 'typebox';
import { personOf } from '../../actions/caller.ts';
import { createApiKey } from '../../actions/create-api-key.ts';
import { revokeApiKey } from '../../actions/revoke-api-key.ts';
import { listPersonalKeys } from '../../store/api-keys.ts';
import { reply, route } from '../route.ts';
import { CreateApiKeyBody, CreatedApiKey, KeyId, ListedApiKey, RevokedApiKey } from '../schemas/api-key.ts';
import { serializeCreatedApiKey, serializeListedApiKey, serializeRevokedApiKey } from '../serializers/api-key.ts';

export const apiKeyRoutes = [
  route({
    method: 'GET',
    path: '/api_keys',
    permission: 'api_keys.manage',
    summary: "Lists the caller's personal API keys",
    schema: { response: { 200: Type.Array(ListedApiKey) } },
    handle: async ({ context, caller }) => {
      const { user } = personOf(caller);
      const keys = await listPersonalKeys(context.store, user.id);
      return reply(
        200,
        keys.map((key) => serializeListedApiKey(key, user.name || user.email)),
      );
    },
  }),
  route({
    method: 'POST',
    path: '/api_keys',
    permission: 'api_keys.manage',
    summary: 'Makes a personal API key; its secret is told this once',
    // 200 and not 201, as in the public API.
    schema: { body: CreateApiKeyBody, response: { 200: CreatedApiKey } },
    handle: async ({ context, caller, body }) => {
      const wanted = { user_id: personOf(caller).user.id, name: body.key_name, read_only: body.read_only };
      const { key, secret } = await createApiKey(context, wanted);
      return reply(200, serializeCreatedApiKey(key, secret));
    },
  }),
  route({
    method: 'DELETE',
    path: '/api_keys/:key_id',
    permission: 'api_keys.manage',
    summary: 'Revokes a personal API key, at once and for good',
    schema: {
      params: Type.Object({ key_id: KeyId }),
      response: { 200: RevokedApiKey },
    },
    handle: async ({ context, caller, params }) => {
      const key = { user_id: personOf(caller).user.id, key_id: params.key_id };
      return reply(200, serializeRevokedApiKey(await revokeApiKey(context, key)));
    },
  }),
];
