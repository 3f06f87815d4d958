import { CoppiceError } from '../domain/errors.ts';
import type { EndpointId } from '../domain/ids.ts';
import type { AccessibleProject } from './access.ts';
import { changeEndpoint } from './change-endpoint.ts';
import type { ActionContext } from './context.ts';
import { endpointOperation, willRun } from './endpoint-operations.ts';

/** Puts an active endpoint to sleep, whoever uses it. Nothing happens to one that sleeps. */
export function suspendEndpoint(context: ActionContext, project: AccessibleProject, id: EndpointId) {
  return changeEndpoint(context, project, id, (endpoint) => {
    if (endpoint.last_unfinished) throw new CoppiceError('endpoint_transitional', { verb: 'suspend' });
    return willRun(endpoint) ? [endpointOperation('suspend_compute', endpoint)] : [];
  });
}
