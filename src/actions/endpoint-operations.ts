import type { OperationAction } from '../domain/operation-kinds.ts';
import type { NewOperation } from '../store/calls.ts';
import type { EndpointView } from '../store/endpoints.ts';

/** What of an endpoint an operation touches. */
export type OperationTarget = Pick<EndpointView, 'id' | 'branch_id' | 'timeline_id'>;

/** An operation on an endpoint's compute, which holds the timeline of its branch. */
export function endpointOperation(
  action: OperationAction,
  endpoint: OperationTarget,
  args?: Record<string, unknown>,
): NewOperation {
  return {
    action,
    endpoint_id: endpoint.id,
    branch_id: endpoint.branch_id,
    timeline_id: endpoint.timeline_id,
    arguments: args,
  };
}

/** True when the compute runs once everything unfinished on the endpoint is done. */
export function willRun(endpoint: EndpointView): boolean {
  if (endpoint.last_unfinished) return endpoint.last_unfinished === 'start_compute';
  return endpoint.observed_state === 'running' || endpoint.observed_state === 'stopping';
}

/** True when a process of the compute may be left, now or after what has begun on it. */
export function mayRun(endpoint: EndpointView): boolean {
  return willRun(endpoint) || endpoint.last_unfinished !== null;
}

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
