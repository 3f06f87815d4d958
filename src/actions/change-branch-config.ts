import { CoppiceError } from '../domain/errors.ts';
import type { BranchId } from '../domain/ids.ts';
import { type BranchView, bumpConfigGeneration, lockBranchConfig } from '../store/branches.ts';
import { createCall, unarchive } from '../store/calls.ts';
import type { StoreTransaction } from '../store/connection.ts';
import { findEndpointsOfBranch } from '../store/endpoints.ts';
import { lockLiveProject } from '../store/projects.ts';
import type { OperationRow } from '../store/schema.ts';
import { type AccessibleProject, findBranchOf } from './access.ts';
import type { ActionContext } from './context.ts';
import { applyOperations } from './endpoint-operations.ts';

/** What came of a change: the role or database, and whether anything is different now. */
export interface ConfigChange<T> {
  readonly row: T;
  readonly changed: boolean;
}

/**
 * Changes roles or databases of a branch and has the server of its read_write endpoint follow. A branch without one
 * holds the change until the next start, but comes back from the archive.
 */
export function changeBranchConfig<T>(
  context: ActionContext,
  project: AccessibleProject,
  branch_id: BranchId,
  change: (trx: StoreTransaction, branch: BranchView) => Promise<ConfigChange<T>>,
): Promise<{ row: T; operations: OperationRow[] }> {
  return context.store.transaction().execute(async (trx) => {
    await lockLiveProject(trx, project.id);
    const branch = await findBranchOf(trx, project, branch_id);
    // What is changed now would be overwritten by what is restored, or be lost with the copy that was to be kept.
    if (branch.in_restore) throw new CoppiceError('operations_running');
    await lockBranchConfig(trx, branch.id);
    const { row, changed } = await change(trx, branch);
    if (!changed) return { row, operations: [] };
    await bumpConfigGeneration(trx, branch.id);
    const endpoint = (await findEndpointsOfBranch(trx, branch.id))?.find(({ type }) => type === 'read_write');
    const applied = endpoint ? await createCall(trx, project.id, applyOperations(endpoint)) : [];
    return { row, operations: applied.length > 0 ? applied : await unarchive(trx, branch) };
  });
}
