import Type from 'typebox';
import { readConnections } from '../../actions/read-connections.ts';
import { reply, route } from '../route.ts';
import { EndpointParams } from '../schemas/endpoint.ts';
import { ConnectionsQuery, EndpointConnections } from '../schemas/endpoint-connections.ts';
import { serializeConnections } from '../serializers/endpoint-connections.ts';

const DEFAULT_LIMIT = 100;

export const connectionRoutes = [
  route({
    method: 'GET',
    path: '/projects/:project_id/endpoints/:endpoint_id/connections',
    permission: 'endpoint.read',
    summary: 'Shows who is connected to an endpoint through the gateway',
    schema: {
      params: EndpointParams,
      querystring: ConnectionsQuery,
      response: { 200: Type.Object({ connections: EndpointConnections }) },
    },
    handle: async ({ context, project, params, query: { limit = DEFAULT_LIMIT } }) => {
      const connections = await readConnections(context, project, params.endpoint_id, limit);
      return reply(200, { connections: serializeConnections(connections) });
    },
  }),
];
