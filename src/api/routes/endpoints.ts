import Type from 'typebox';
import { findEndpointOf } from '../../actions/access.ts';
import type { ActionContext } from '../../actions/context.ts';
import { createEndpoint } from '../../actions/create-endpoint.ts';
import { deleteEndpoint } from '../../actions/delete-endpoint.ts';
import { restartEndpoint } from '../../actions/restart-endpoint.ts';
import { startEndpoint } from '../../actions/start-endpoint.ts';
import { suspendEndpoint } from '../../actions/suspend-endpoint.ts';
import { updateEndpoint } from '../../actions/update-endpoint.ts';
import { type EndpointView, findEndpointsOfProject } from '../../store/endpoints.ts';
import type { OperationRow } from '../../store/schema.ts';
import { reply, route } from '../route.ts';
import { Endpoint, EndpointCreate, EndpointOperations, EndpointParams, EndpointUpdate } from '../schemas/endpoint.ts';
import { ProjectParams } from '../schemas/fields.ts';
import { serializeEndpoint } from '../serializers/endpoint.ts';
import { serializeOperation } from '../serializers/operation.ts';

const answer = (context: ActionContext, done: { endpoint: EndpointView; operations: OperationRow[] }) => ({
  endpoint: serializeEndpoint(done.endpoint, context.installation),
  operations: done.operations.map(serializeOperation),
});

const reads = [
  route({
    method: 'GET',
    path: '/projects/:project_id/endpoints',
    permission: 'endpoint.read',
    summary: 'Lists the endpoints of a project',
    schema: { params: ProjectParams, response: { 200: Type.Object({ endpoints: Type.Array(Endpoint) }) } },
    prefetch: (context, params) => findEndpointsOfProject(context.store, params.project_id!),
    handle: async ({ context, prefetched }) => {
      const rows = (await prefetched) ?? [];
      return reply(200, { endpoints: rows.map((row) => serializeEndpoint(row, context.installation)) });
    },
  }),
  route({
    method: 'GET',
    path: '/projects/:project_id/endpoints/:endpoint_id',
    permission: 'endpoint.read',
    summary: 'Shows an endpoint',
    schema: { params: EndpointParams, response: { 200: Type.Object({ endpoint: Endpoint }) } },
    handle: async ({ context, project, params }) => {
      const endpoint = await findEndpointOf(context.store, project, params.endpoint_id);
      return reply(200, { endpoint: serializeEndpoint(endpoint, context.installation) });
    },
  }),
];

const changes = [
  route({
    method: 'POST',
    path: '/projects/:project_id/endpoints',
    permission: 'endpoint.write',
    summary: 'Creates an endpoint for a branch and starts it',
    schema: { params: ProjectParams, body: EndpointCreate, response: { 201: EndpointOperations } },
    handle: async ({ context, project, body }) =>
      reply(201, answer(context, await createEndpoint(context, project, body.endpoint))),
  }),
  route({
    method: 'PATCH',
    path: '/projects/:project_id/endpoints/:endpoint_id',
    permission: 'endpoint.write',
    summary: 'Changes an endpoint',
    schema: { params: EndpointParams, body: EndpointUpdate, response: { 200: EndpointOperations } },
    handle: async ({ context, project, params, body }) =>
      reply(200, answer(context, await updateEndpoint(context, project, params.endpoint_id, body.endpoint))),
  }),
  route({
    method: 'DELETE',
    path: '/projects/:project_id/endpoints/:endpoint_id',
    permission: 'endpoint.write',
    summary: 'Deletes an endpoint',
    schema: { params: EndpointParams, response: { 200: EndpointOperations, 204: Type.Null() } },
    handle: async ({ context, project, params }) => {
      const deleted = await deleteEndpoint(context, project, params.endpoint_id);
      return deleted ? reply(200, answer(context, deleted)) : reply(204, null);
    },
  }),
  route({
    method: 'POST',
    path: '/projects/:project_id/endpoints/:endpoint_id/start',
    permission: 'endpoint.write',
    summary: 'Starts an idle endpoint',
    schema: { params: EndpointParams, response: { 200: EndpointOperations } },
    handle: async ({ context, project, params }) =>
      reply(200, answer(context, await startEndpoint(context, project, params.endpoint_id))),
  }),
  route({
    method: 'POST',
    path: '/projects/:project_id/endpoints/:endpoint_id/suspend',
    permission: 'endpoint.write',
    summary: 'Puts an active endpoint to sleep',
    schema: { params: EndpointParams, response: { 200: EndpointOperations } },
    handle: async ({ context, project, params }) =>
      reply(200, answer(context, await suspendEndpoint(context, project, params.endpoint_id))),
  }),
  route({
    method: 'POST',
    path: '/projects/:project_id/endpoints/:endpoint_id/restart',
    permission: 'endpoint.write',
    summary: 'Stops and starts an active endpoint',
    schema: { params: EndpointParams, response: { 200: EndpointOperations } },
    handle: async ({ context, project, params }) =>
      reply(200, answer(context, await restartEndpoint(context, project, params.endpoint_id))),
  }),
];

export const endpointRoutes = [...reads, ...changes];
