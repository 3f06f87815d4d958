import { CoppiceError } from '../domain/errors.ts';
import type { BranchId } from '../domain/ids.ts';
import { type BranchView, findBranchIdByName, listChildren, updateBranch as writeBranch } from '../store/branches.ts';
import { unarchive } from '../store/calls.ts';
import type { StoreTransaction } from '../store/connection.ts';
import { lockLiveProject } from '../store/projects.ts';
import type { OperationRow } from '../store/schema.ts';
import { type AccessibleProject, findBranchOf } from './access.ts';
import { readExpiry } from './branch-expiry.ts';
import type { ActionContext } from './context.ts';

export interface BranchChange {
  readonly name?: string;
  readonly protected?: boolean;
  /** RFC 3339; null takes the expiry away. */
  readonly expires_at?: string | null;
}

/**
 * Renames a branch, protects it, or changes when it expires. Touches no server; one that is protected comes back from the
 * archive, where no protected branch is.
 */
export function updateBranch(
  context: ActionContext,
  project: AccessibleProject,
  id: BranchId,
  wanted: BranchChange,
): Promise<{ branch: BranchView; operations: OperationRow[] }> {
  return context.store.transaction().execute(async (trx) => {
    await lockLiveProject(trx, project.id);
    const branch = await findBranchOf(trx, project, id);
    const name = wanted.name ?? branch.name;
    if (name !== branch.name && (await findBranchIdByName(trx, project.id, name))) {
      throw new CoppiceError('branch_exists', { name });
    }
    const protect = wanted.protected ?? branch.protected;
    const expiry = await expiryAfter(trx, branch, protect, wanted.expires_at);
    const same = name === branch.name && protect === branch.protected && wanted.expires_at === undefined;
    if (same) return { branch, operations: [] };
    await writeBranch(trx, id, { name, protected: protect, ...expiry });
    const operations = protect ? await unarchive(trx, branch) : [];
    return { branch: await findBranchOf(trx, project, id), operations };
  });
}

async function expiryAfter(
  trx: StoreTransaction,
  branch: BranchView,
  protect: boolean,
  wanted: string | null | undefined,
): Promise<Pick<BranchView, 'expires_at' | 'ttl_interval_seconds'>> {
  const { id, expires_at, ttl_interval_seconds } = branch;
  if (wanted === null) return { expires_at: null, ttl_interval_seconds: null };
  if (wanted === undefined) {
    if (expires_at && protect) throw new CoppiceError('branch_expiring', { verb: 'protect', id });
    return { expires_at, ttl_interval_seconds };
  }
  const refuse = (reason: string) => new CoppiceError('branch_cannot_expire', { reason, id });
  if (protect) throw refuse('it is protected');
  if (branch.is_default) throw refuse('it is the default branch');
  if ((await listChildren(trx, id)).length > 0) throw refuse('it has children');
  return readExpiry(wanted, new Date());
}
