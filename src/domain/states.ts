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

/** What decides the state of a branch. */
export interface BranchFacts {
  readonly ready_at: Date | null;
  readonly deleted: boolean;
  readonly restoring: boolean;
  readonly archived: boolean;
  readonly archive_pending: 'timeline_archive' | 'timeline_unarchive' | null;
}

/** The branch's state as shown. A timeline is ready once its volume stands; a restore makes another one. */
export function branchState(branch: BranchFacts): {
  current_state: 'init' | 'resetting' | 'ready' | 'archived';
  pending_state?: 'ready' | 'archived' | 'storage_deleted';
} {
  const present = branch.archived ? 'archived' : branch.ready_at ? 'ready' : 'init';
  const current_state = branch.restoring ? 'resetting' : present;
  if (branch.deleted) return { current_state, pending_state: 'storage_deleted' };
  const pending_state = pendingState(branch, current_state);
  return pending_state === current_state ? { current_state } : { current_state, pending_state };
}

function pendingState({ archive_pending }: BranchFacts, current_state: string): 'ready' | 'archived' {
  if (archive_pending) return archive_pending === 'timeline_archive' ? 'archived' : 'ready';
  return current_state === 'archived' ? 'archived' : 'ready';
}
