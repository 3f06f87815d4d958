import type { EndpointConnections } from '../domain/endpoint-connections.ts';
import { CoppiceError } from '../domain/errors.ts';
import type { EndpointId } from '../domain/ids.ts';
import { type AccessibleProject, findEndpointOf } from './access.ts';
import type { ActionContext } from './context.ts';

/**
 * Who is connected to an endpoint, as the gateway that serves beside this API knows it. Throws `not_found`, and
 * `not_available` where the gateway is a process of its own.
 *
 * @param limit of each list
 */
export async function readConnections(
  context: ActionContext,
  project: AccessibleProject,
  id: EndpointId,
  limit: number,
): Promise<EndpointConnections> {
  await findEndpointOf(context.store, project, id);
  if (!context.connections) throw new CoppiceError('not_available', { feature: 'a view of connections' });
  return context.connections(id, limit);
}
