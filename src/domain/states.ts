import type { OperationAction } from './operation-kinds.ts';

/** What the compute driver last saw of an endpoint's compute. `none`: never started. */
export type ObservedCompute = 'none' | 'running' | 'stopping' | 'stopped';

/** The API's three endpoint states. */
export type EndpointState = 'init' | 'active' | 'idle';

/** The endpoint's state as shown: what was observed, and where its unfinished operations lead. */
export function endpointState(
  observed: ObservedCompute,
  lastUnfinished: OperationAction | undefined,
): { current_state: EndpointState; pending_state?: EndpointState } {
  const current_state = observed === 'none' ? 'init' : observed === 'stopped' ? 'idle' : 'active';
  const pending_state =
    lastUnfinished === 'start_compute' ? 'active' : lastUnfinished === 'suspend_compute' ? 'idle' : undefined;
  return pending_state ? { current_state, pending_state } : { current_state };
}

/** The branch's state as shown. A timeline is ready once its volume stands; a restore makes another one. */
export function branchState(branch: { ready_at: Date | null; deleted: boolean; restoring: boolean }): {
  current_state: 'init' | 'resetting' | 'ready';
  pending_state?: 'ready' | 'storage_deleted';
} {
  const current_state = branch.restoring ? 'resetting' : branch.ready_at ? 'ready' : 'init';
  if (branch.deleted) return { current_state, pending_state: 'storage_deleted' };
  return current_state === 'ready' ? { current_state } : { current_state, pending_state: 'ready' };
}
