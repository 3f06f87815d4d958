import { CoppiceError } from '../domain/errors.ts';
import type { EndpointId } from '../domain/ids.ts';
import { findBranch } from '../store/branches.ts';
import { cancelUnfinished, createCall } from '../store/calls.ts';
import { type EndpointView, findEndpoint, markEndpointsDeleted } from '../store/endpoints.ts';
import { lockLiveProject } from '../store/projects.ts';
import type { OperationRow } from '../store/schema.ts';
import type { AccessibleProject } from './access.ts';
import type { ActionContext } from './context.ts';
import { endpointOperation, mayRun } from './endpoint-operations.ts';

/** Deletes an endpoint; what is under way on it is cancelled. Undefined when there is none. */
export function deleteEndpoint(
  context: ActionContext,
  project: AccessibleProject,
  id: EndpointId,
): Promise<{ endpoint: EndpointView; operations: OperationRow[] } | undefined> {
  return context.store.transaction().execute(async (trx) => {
    await lockLiveProject(trx, project.id);
    const endpoint = await findEndpoint(trx, id);
    if (endpoint?.project_id !== project.id || endpoint.ephemeral_of) return undefined;
    const branch = await findBranch(trx, endpoint.branch_id);
    if (branch?.protected) throw new CoppiceError('branch_protected', { verb: 'delete the endpoint of a' });
    await cancelUnfinished(trx, { endpoint_id: id });
    await markEndpointsDeleted(trx, [id]);
    const stops = mayRun(endpoint) ? [endpointOperation('suspend_compute', endpoint)] : [];
    const operations = await createCall(trx, project.id, stops);
    return { endpoint: { ...endpoint, last_unfinished: stops.length > 0 ? 'suspend_compute' : null }, operations };
  });
}
