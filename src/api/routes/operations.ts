import Type from 'typebox';
import { lookUpOperation, requireOperationOf } from '../../actions/access.ts';
import { hasEnded } from '../../actions/operation-waits.ts';
import { LIMITS } from '../../domain/limits.ts';
import { listOperations } from '../../store/operations.ts';
import { reply, route } from '../route.ts';
import { inProject, ProjectParams, Uuid } from '../schemas/fields.ts';
import { Operation, Operations } from '../schemas/operation.ts';
import { serializeOperation } from '../serializers/operation.ts';

export const operationRoutes = [
  route({
    method: 'GET',
    path: '/projects/:project_id/operations',
    permission: 'operation.read',
    summary: 'Lists operations, newest first',
    schema: {
      params: ProjectParams,
      querystring: Type.Object({
        cursor: Type.Optional(Type.String({ format: 'date-time', description: 'Only operations older than this' })),
        limit: Type.Optional(Type.Integer({ minimum: 1, maximum: LIMITS.operations_page_max })),
      }),
      response: {
        200: Type.Object({
          operations: Operations,
          pagination: Type.Optional(Type.Object({ cursor: Type.String() })),
        }),
      },
    },
    handle: async ({ context, project, query }) => {
      const rows = await listOperations(context.store, project.id, query);
      const cursor = rows.at(-1)?.cursor;
      return reply(200, {
        operations: rows.map(serializeOperation),
        pagination: cursor ? { cursor } : undefined,
      });
    },
  }),
  route({
    method: 'GET',
    path: '/projects/:project_id/operations/:operation_id',
    permission: 'operation.read',
    summary: 'Shows an operation, when it has ended if asked to wait',
    schema: {
      params: inProject({ operation_id: Uuid }),
      querystring: Type.Object({
        wait_s: Type.Optional(
          Type.Integer({
            minimum: 0,
            maximum: LIMITS.wait_seconds_max,
            description: 'Answers when the operation has ended, or after so many seconds',
          }),
        ),
      }),
      response: { 200: Type.Object({ operation: Operation }) },
    },
    prefetch: (context, params) => lookUpOperation(context.store, params.operation_id!),
    handle: async ({ project, prefetched, query, untilEnded }) => {
      const found = requireOperationOf(project, await prefetched);
      const [waited] = query.wait_s && !hasEnded(found) ? await untilEnded([found.id], query.wait_s) : [found];
      return reply(200, { operation: serializeOperation(waited ?? found) });
    },
  }),
];
