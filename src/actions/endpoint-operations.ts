import type { NewOperation } from '../store/calls.ts';
import { endpointOperation, willRun } from '../store/endpoint-operations.ts';
import type { EndpointView } from '../store/endpoints.ts';

export { endpointOperation, mayRun, willRun } from '../store/endpoint-operations.ts';

/**
 * Brings changed roles, databases or settings to the server of an endpoint. One that sleeps is woken for it, and put
 * back to sleep unless somebody has come to use it meanwhile. A disabled one learns of them when it is next started.
 */
export function applyOperations(endpoint: EndpointView): NewOperation[] {
  if (willRun(endpoint)) return [endpointOperation('apply_config', endpoint)];
  if (endpoint.disabled) return [];
  return [
    endpointOperation('apply_config', endpoint),
    endpointOperation('suspend_compute', endpoint, { only_if_idle: true }),
  ];
}
