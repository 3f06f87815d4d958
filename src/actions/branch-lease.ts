import { CoppiceError } from '../domain/errors.ts';
import type { BranchId } from '../domain/ids.ts';
import { type BranchView, updateBranch } from '../store/branches.ts';
import type { StoreTransaction } from '../store/connection.ts';
import { lockLiveProject } from '../store/projects.ts';
import { type AccessibleProject, findBranchOf } from './access.ts';
import type { BranchExpiry } from './branch-expiry.ts';
import type { ActionContext } from './context.ts';

/** When a lease ends that begins now: whole seconds, and never shorter than asked for. */
export function newLease(ttl_seconds: number, now: Date): BranchExpiry {
  const expires_at = new Date(Math.ceil(now.getTime() / 1000 + ttl_seconds) * 1000);
  return { expires_at, ttl_interval_seconds: ttl_seconds };
}

/**
 * Lets a branch that expires live as long again as it was to live, or for as long as is asked for. A lease is nothing but an
 * expiry that somebody goes on moving: one that is not renewed is over, and the branch is deleted like any that expired.
 */
export function renewLease(
  context: ActionContext,
  project: AccessibleProject,
  id: BranchId,
  ttl_seconds: number | undefined,
): Promise<BranchView> {
  return context.store.transaction().execute(async (trx) => {
    await lockLiveProject(trx, project.id);
    const branch = await findBranchOf(trx, project, id);
    const ttl = ttl_seconds ?? branch.ttl_interval_seconds;
    if (!branch.expires_at || ttl === null) throw new CoppiceError('branch_without_lease', { id });
    await updateBranch(trx, id, { ...newLease(ttl, new Date()) });
    return findBranchOf(trx, project, id);
  });
}

/** The same for whoever would make a branch that is there; never shorter, and nothing where the branch is to stay. */
export async function prolongLease(trx: StoreTransaction, branch: BranchView, ttl_seconds: number): Promise<void> {
  const lease = newLease(ttl_seconds, new Date());
  if (branch.expires_at && branch.expires_at < lease.expires_at) await updateBranch(trx, branch.id, lease);
}
