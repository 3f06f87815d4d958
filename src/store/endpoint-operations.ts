import { claimedTimeline, type OperationAction } from '../domain/operation-kinds.ts';
import type { NewOperation } from './calls.ts';
import type { EndpointView } from './endpoints.ts';

/** What of an endpoint an operation touches; without a type it is a read_write one. */
export type OperationTarget = Pick<EndpointView, 'id' | 'branch_id' | 'timeline_id'> &
  Partial<Pick<EndpointView, 'type' | 'config_pending'>>;

/**
 * An operation on an endpoint's compute, which holds the timeline of its branch. That of a replica does so only while roles
 * and databases wait that nobody may bring to the branch but its start.
 */
export function endpointOperation(
  action: OperationAction,
  endpoint: OperationTarget,
  args?: Record<string, unknown>,
): NewOperation {
  const { type = 'read_write', timeline_id } = endpoint;
  return {
    action,
    endpoint_id: endpoint.id,
    branch_id: endpoint.branch_id,
    timeline_id: endpoint.config_pending ? timeline_id : claimedTimeline({ type, timeline_id }),
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
