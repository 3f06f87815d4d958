import type { FastifyRequest } from 'fastify';
import { CoppiceError } from '../domain/errors.ts';
import type { OperationId } from '../domain/ids.ts';
import type { Store } from '../store/connection.ts';
import { findOperationInTheWay } from '../store/operations.ts';

/**
 * The operation that a refused request may wait for. Undefined where waiting does not help, or none can be told. Such errors
 * are thrown by actions alone, so the caller may see the project in the path.
 */
export async function operationInTheWay(
  store: Store,
  error: unknown,
  { params }: FastifyRequest,
): Promise<OperationId | undefined> {
  const passes =
    error instanceof CoppiceError && error.retry === 'safe' && (error.status === 423 || error.status === 422);
  const ids = params as { project_id?: string; branch_id?: string; endpoint_id?: string };
  if (!passes || ids.project_id === undefined) return undefined;
  return findOperationInTheWay(store, { ...ids, project_id: ids.project_id }).catch(() => undefined);
}
