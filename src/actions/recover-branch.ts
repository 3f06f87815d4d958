import { CoppiceError } from '../domain/errors.ts';
import type { BranchId } from '../domain/ids.ts';
import { type BranchView, findBranch, findBranchIdByName, findKeptBranch } from '../store/branches.ts';
import type { StoreTransaction } from '../store/connection.ts';
import { recoverBranchRow } from '../store/deleted-branches.ts';
import { type EndpointView, findEndpointsOfBranch } from '../store/endpoints.ts';
import { lockLiveProject } from '../store/projects.ts';
import type { AccessibleProject } from './access.ts';
import type { ActionContext, InstallationFacts } from './context.ts';

/** Branches that were deleted before this are gone for good. */
export const branchesRecoverableSince = ({ keep_deleted_branches_seconds = 0 }: InstallationFacts): Date =>
  new Date(Date.now() - keep_deleted_branches_seconds * 1000);

/**
 * Brings a deleted branch back with its endpoints; its computes sleep, and it expires no more. One that is gone for good is
 * `not_found`. Its name may have been given to another branch, which is then refused, since callers know branches by name.
 */
export function recoverBranch(
  context: ActionContext,
  project: AccessibleProject,
  id: BranchId,
): Promise<{ branch: BranchView; endpoints: EndpointView[] }> {
  const since = branchesRecoverableSince(context.installation);
  return context.store.transaction().execute(async (trx) => {
    await lockLiveProject(trx, project.id);
    if ((await findBranch(trx, id))?.project_id === project.id) throw new CoppiceError('branch_not_deleted', { id });
    const kept = await findKeptBranch(trx, id, since);
    if (kept?.project_id !== project.id) throw new CoppiceError('not_found', { noun: 'branch' });
    const { name } = kept;
    if (await findBranchIdByName(trx, project.id, name)) throw new CoppiceError('branch_exists', { name });
    const parent = await findParent(trx, kept, since);
    await recoverBranchRow(trx, id, { as_root: kept.parent_id !== null && !parent });
    return { branch: (await findBranch(trx, id))!, endpoints: (await findEndpointsOfBranch(trx, id)) ?? [] };
  });
}

/** Undefined where there never was one, or where it is gone for good; one that is deleted comes back first. */
async function findParent(trx: StoreTransaction, { parent_id }: BranchView, since: Date) {
  if (!parent_id) return undefined;
  const parent = await findBranch(trx, parent_id);
  if (!parent && (await findKeptBranch(trx, parent_id, since))) {
    throw new CoppiceError('branch_parent_deleted', { parent_id });
  }
  if (parent?.expires_at) throw new CoppiceError('branch_expiring', { verb: 'bring back a child of', id: parent.id });
  return parent;
}
