import Type from 'typebox';
import { findConnection } from '../../actions/find-connection.ts';
import { connectionUri } from '../../domain/connection-string.ts';
import { reply, route } from '../route.ts';
import { Id, ProjectParams } from '../schemas/fields.ts';

export const connectionUriRoutes = [
  route({
    method: 'GET',
    path: '/projects/:project_id/connection_uri',
    permission: 'connection_uri.read',
    summary: 'Shows the connection string of a role and a database',
    schema: {
      params: ProjectParams,
      querystring: Type.Object({
        branch_id: Type.Optional(Id),
        endpoint_id: Type.Optional(Id),
        database_name: Type.String(),
        role_name: Type.String(),
        pooled: Type.Optional(Type.Boolean()),
      }),
      response: { 200: Type.Object({ uri: Type.String() }) },
    },
    handle: async ({ context, project, query }) =>
      reply(200, { uri: connectionUri(context.installation, await findConnection(context, project, query)) }),
  }),
];
