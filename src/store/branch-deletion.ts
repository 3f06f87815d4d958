import { dropRestore } from './branch-restores.ts';
import { type BranchView, type DeletionMethod, markBranchDeleted } from './branches.ts';
import { cancelUnfinished, createCall } from './calls.ts';
import type { StoreTransaction } from './connection.ts';
import { isWholeBranch } from './deleted-branches.ts';
import { endpointOperation, mayRun } from './endpoint-operations.ts';
import { findEndpointsOfBranch, markEndpointsDeleted } from './endpoints.ts';
import { findEphemeralBranches } from './ephemeral-branches.ts';
import { deleteJwksOfBranch } from './project-jwks.ts';
import type { OperationRow } from './schema.ts';
import { markTimelineDeleted } from './timelines.ts';

/**
 * Writes that a branch goes with its endpoints, and first the copies for clients who look into its past; what is under
 * way on it is cancelled. Belongs behind the project's lock. Whether it may go was checked.
 *
 * @param method it is kept for a while, if it is whole; else its data goes at once
 */
export async function writeBranchDeletion(
  trx: StoreTransaction,
  { id, project_id, timeline_id }: Pick<BranchView, 'id' | 'project_id' | 'timeline_id'>,
  method?: DeletionMethod,
): Promise<OperationRow[]> {
  for (const copy of await findEphemeralBranches(trx, id)) await writeBranchDeletion(trx, copy);
  const endpoints = (await findEndpointsOfBranch(trx, id)) ?? [];
  const may_return = method !== undefined && (await isWholeBranch(trx, { id, project_id }));
  await cancelUnfinished(trx, { branch_id: id });
  await markEndpointsDeleted(
    trx,
    endpoints.map((endpoint) => endpoint.id),
  );
  if (may_return) {
    await markBranchDeleted(trx, id, method);
    const stops = endpoints.filter(mayRun).map((endpoint) => endpointOperation('suspend_compute', endpoint));
    return createCall(trx, project_id, stops);
  }
  const before = await dropRestore(trx, { project_id, branch_id: id, timeline_id });
  await deleteJwksOfBranch(trx, id);
  await markBranchDeleted(trx, id);
  await markTimelineDeleted(trx, timeline_id);
  return createCall(trx, project_id, [
    ...endpoints.filter(mayRun).map((endpoint) => ({
      ...endpointOperation('suspend_compute', endpoint),
      // What runs until a restore is done.
      timeline_id: before?.timeline_id ?? timeline_id,
    })),
    ...[timeline_id, ...(before && !before.kept ? [before.timeline_id] : [])].map(
      (one) => ({ action: 'delete_timeline', branch_id: id, timeline_id: one }) as const,
    ),
  ]);
}
