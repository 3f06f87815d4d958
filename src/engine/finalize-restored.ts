import type { BranchId, ProjectId } from '../domain/ids.ts';
import { findBranch } from '../store/branches.ts';
import type { StoreTransaction } from '../store/connection.ts';
import { finalizeRestore } from '../store/finalize-restore.ts';
import { freeBranchName } from '../store/free-branch-name.ts';
import { lockLiveProject } from '../store/projects.ts';

/**
 * Puts a branch that was restored from a snapshot in the place of its target. Belongs in the transaction that says that its
 * volume stands: until then the target serves, and whoever sees the volume sees the branch in its place. A target that
 * was deleted meanwhile is replaced by nobody.
 */
export async function finalizeRestored(
  trx: StoreTransaction,
  { project_id, branch_id }: { readonly project_id: ProjectId; readonly branch_id: BranchId },
): Promise<void> {
  await lockLiveProject(trx, project_id);
  const restored = await findBranch(trx, branch_id);
  const target = restored?.restored_as ? await findBranch(trx, restored.restored_as) : undefined;
  if (!restored || !target || restored.restore_status !== 'restored') return;
  const replaced_name = await freeBranchName(trx, project_id, target.name, 'old');
  await finalizeRestore(trx, { restored, target, replaced_name });
}
