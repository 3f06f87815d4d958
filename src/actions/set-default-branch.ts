import { CoppiceError } from '../domain/errors.ts';
import type { BranchId } from '../domain/ids.ts';
import { type BranchView, markBranchDefault } from '../store/branches.ts';
import { unarchive } from '../store/calls.ts';
import { lockLiveProject } from '../store/projects.ts';
import type { OperationRow } from '../store/schema.ts';
import { type AccessibleProject, findBranchOf } from './access.ts';
import type { ActionContext } from './context.ts';

/** Makes a branch the project's default one, which is not in the archive. */
export function setDefaultBranch(
  context: ActionContext,
  project: AccessibleProject,
  id: BranchId,
): Promise<{ branch: BranchView; operations: OperationRow[] }> {
  return context.store.transaction().execute(async (trx) => {
    await lockLiveProject(trx, project.id);
    const branch = await findBranchOf(trx, project, id);
    if (branch.expires_at) throw new CoppiceError('branch_expiring', { verb: 'make a default of', id });
    await markBranchDefault(trx, project.id, id);
    const operations = await unarchive(trx, branch);
    return { branch: await findBranchOf(trx, project, id), operations };
  });
}
