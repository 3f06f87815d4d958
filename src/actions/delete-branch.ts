import { CoppiceError } from '../domain/errors.ts';
import type { BranchId } from '../domain/ids.ts';
import { writeBranchDeletion } from '../store/branch-deletion.ts';
import { type BranchView, findBranch, findBranchEvenDeleted, findKeptBranch, listChildren } from '../store/branches.ts';
import type { StoreTransaction } from '../store/connection.ts';
import { writeBranchPurge } from '../store/deleted-branches.ts';
import { lockLiveProject } from '../store/projects.ts';
import type { OperationRow } from '../store/schema.ts';
import type { AccessibleProject } from './access.ts';
import type { ActionContext } from './context.ts';

interface DeletedBranch {
  readonly branch: BranchView;
  readonly operations: OperationRow[];
}

/**
 * Deletes a branch with its endpoints; what is under way on it is cancelled. Where deleted branches are kept it can come back for
 * a while, unless it is still being made or restored. Undefined when there is none.
 *
 * @param hard for good, also where it was deleted before and is kept
 */
export function deleteBranch(
  context: ActionContext,
  project: AccessibleProject,
  id: BranchId,
  { hard }: { readonly hard: boolean },
): Promise<DeletedBranch | undefined> {
  return context.store.transaction().execute(async (trx) => {
    await lockLiveProject(trx, project.id);
    const branch = await findBranch(trx, id);
    if (branch?.project_id !== project.id) return hard ? purgeBranch(trx, project, id) : undefined;
    if (branch.protected) throw new CoppiceError('branch_protected', { verb: 'delete' });
    if (branch.is_default) throw new CoppiceError('branch_default');
    const children = await listChildren(trx, id);
    if (children.length > 0) {
      const named = children.map((child) => `${child.id} (${child.name})`).join(', ');
      throw new CoppiceError('branch_has_children', { children: named });
    }
    // Another branch may yet need it, to return to what it was.
    if (branch.in_restore && !branch.previous_timeline_id) throw new CoppiceError('operations_running');
    const is_kept = !hard && (context.installation.keep_deleted_branches_seconds ?? 0) > 0;
    const operations = await writeBranchDeletion(trx, branch, is_kept ? 'user' : undefined);
    return { branch: await findBranchEvenDeleted(trx, id), operations };
  });
}

/** Has one that is kept go before its time is over. */
async function purgeBranch(
  trx: StoreTransaction,
  project: AccessibleProject,
  id: BranchId,
): Promise<DeletedBranch | undefined> {
  const kept = await findKeptBranch(trx, id, new Date(0));
  if (kept?.project_id !== project.id) return undefined;
  const operations = await writeBranchPurge(trx, kept);
  return { branch: await findBranchEvenDeleted(trx, id), operations };
}
