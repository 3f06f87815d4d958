import type { EndpointId, OperationId } from '../domain/ids.ts';
import type { ActionContext } from './context.ts';
import { ensureStart } from './start-endpoint.ts';

/**
 * Wakes an endpoint for somebody who connects and was let in by the gateway, which is why no caller is asked for.
 *
 * @returns the start to wait for; without one the compute is said to run
 */
export async function wakeEndpoint(
  context: Pick<ActionContext, 'store'>,
  endpoint_id: EndpointId,
): Promise<{ operation_id?: OperationId }> {
  return { operation_id: await ensureStart(context, endpoint_id) };
}
