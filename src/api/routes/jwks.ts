import Type from 'typebox';
import { addJwks } from '../../actions/add-jwks.ts';
import { removeJwks } from '../../actions/remove-jwks.ts';
import { listJwks } from '../../store/project-jwks.ts';
import { reply, route } from '../route.ts';
import { ProjectParams } from '../schemas/fields.ts';
import { Jwks, JwksCreate, JwksOperations, JwksParams } from '../schemas/jwks.ts';
import { serializeJwks } from '../serializers/jwks.ts';
import { serializeOperation } from '../serializers/operation.ts';

const path = '/projects/:project_id/jwks';

export const jwksRoutes = [
  route({
    method: 'GET',
    path,
    permission: 'project.read',
    summary: 'Lists whose tokens (JWT) are taken in a project',
    schema: { params: ProjectParams, response: { 200: Type.Object({ jwks: Type.Array(Jwks) }) } },
    handle: async ({ context, project }) =>
      reply(200, { jwks: (await listJwks(context.store, project.id)).map(serializeJwks) }),
  }),
  route({
    method: 'POST',
    path,
    permission: 'project.update',
    summary: 'Takes the tokens of an issuer, and makes the roles that they are for where these lack',
    schema: { params: ProjectParams, body: JwksCreate, response: { 201: JwksOperations } },
    handle: async ({ context, project, body }) => {
      const { jwks, operations } = await addJwks(context, project, body);
      return reply(201, { jwks: serializeJwks(jwks), operations: operations.map(serializeOperation) });
    },
  }),
  route({
    method: 'DELETE',
    path: `${path}/:jwks_id`,
    permission: 'project.update',
    summary: 'Takes the tokens of an issuer no more',
    schema: { params: JwksParams, response: { 200: Jwks } },
    handle: async ({ context, project, params }) =>
      reply(200, serializeJwks(await removeJwks(context, project, params.jwks_id))),
  }),
];
