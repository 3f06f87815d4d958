import { CoppiceError } from '../domain/errors.ts';
import type { BranchId } from '../domain/ids.ts';
import { writeBranchDeletion } from '../store/branch-deletion.ts';
import { type BranchView, findBranch, findBranchEvenDeleted, listChildren } from '../store/branches.ts';
import { lockLiveProject } from '../store/projects.ts';
import type { OperationRow } from '../store/schema.ts';
import type { AccessibleProject } from './access.ts';
import type { ActionContext } from './context.ts';

/** Deletes a branch with its endpoints; what is under way on it is cancelled. Undefined when there is none. */
export function deleteBranch(
  context: ActionContext,
  project: AccessibleProject,
  id: BranchId,
): Promise<{ branch: BranchView; operations: OperationRow[] } | undefined> {
  return context.store.transaction().execute(async (trx) => {
    await lockLiveProject(trx, project.id);
    const branch = await findBranch(trx, id);
    if (branch?.project_id !== project.id) return undefined;
    if (branch.protected) throw new CoppiceError('branch_protected', { verb: 'delete' });
    if (branch.is_default) throw new CoppiceError('branch_default');
    const children = await listChildren(trx, id);
    if (children.length > 0) {
      const named = children.map((child) => `${child.id} (${child.name})`).join(', ');
      throw new CoppiceError('branch_has_children', { children: named });
    }
    // Another branch may yet need it, to return to what it was.
    if (branch.in_restore && !branch.previous_timeline_id) throw new CoppiceError('operations_running');
    const operations = await writeBranchDeletion(trx, branch);
    return { branch: await findBranchEvenDeleted(trx, id), operations };
  });
}
