import { CoppiceError } from '../domain/errors.ts';
import type { BranchId } from '../domain/ids.ts';
import { type BranchView, findBranch, findBranchIdByName } from '../store/branches.ts';
import type { StoreTransaction } from '../store/connection.ts';
import { finalizeRestore as writeFinalization } from '../store/finalize-restore.ts';
import { freeBranchName } from '../store/free-branch-name.ts';
import { lockLiveProject } from '../store/projects.ts';
import type { OperationRow } from '../store/schema.ts';
import { type AccessibleProject, findBranchOf } from './access.ts';
import type { ActionContext } from './context.ts';

/**
 * Puts a branch that was restored from a snapshot in the place of its target. Nothing is left to do when it was already.
 *
 * @param name what the replaced branch is called from now on
 */
export function finalizeRestore(
  context: ActionContext,
  project: AccessibleProject,
  id: BranchId,
  name: string | undefined,
): Promise<OperationRow[]> {
  return context.store.transaction().execute(async (trx) => {
    await lockLiveProject(trx, project.id);
    const restored = await findBranchOf(trx, project, id);
    const refuse = (reason: string) => new CoppiceError('restore_not_finalizable', { reason, id });
    if (!restored.restore_status) throw refuse('the branch was not restored from a snapshot');
    if (restored.restore_status === 'finalized') return [];
    const target = restored.restored_as ? await findBranch(trx, restored.restored_as) : undefined;
    if (!target) throw refuse('the branch that it was to replace is gone');
    // Its computes would follow neither the one nor the other until both are over.
    if (!restored.ready_at || target.in_restore) throw new CoppiceError('operations_running');
    const replaced_name = await checkName(trx, target, name);
    return writeFinalization(trx, { restored, target, replaced_name });
  });
}

async function checkName(trx: StoreTransaction, target: BranchView, name: string | undefined): Promise<string> {
  if (name === undefined) return freeBranchName(trx, target.project_id, target.name, 'old');
  if (await findBranchIdByName(trx, target.project_id, name)) throw new CoppiceError('branch_exists', { name });
  return name;
}
