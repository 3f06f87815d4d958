import { CoppiceError } from '../domain/errors.ts';
import type { EndpointId } from '../domain/ids.ts';
import type { AccessibleProject } from './access.ts';
import { changeEndpoint } from './change-endpoint.ts';
import type { ActionContext } from './context.ts';
import { endpointOperation, willRun } from './endpoint-operations.ts';
import { requireQuota } from './require-quota.ts';

/** Stops and starts an active endpoint; its connections drop once. */
export function restartEndpoint(context: ActionContext, project: AccessibleProject, id: EndpointId) {
  return changeEndpoint(context, project, id, (endpoint) => {
    if (endpoint.last_unfinished) throw new CoppiceError('endpoint_transitional', { verb: 'restart' });
    if (!willRun(endpoint)) throw new CoppiceError('endpoint_not_active', { id });
    requireQuota(project, endpoint.logical_size_bytes ?? 0);
    return [endpointOperation('suspend_compute', endpoint), endpointOperation('start_compute', endpoint)];
  });
}
