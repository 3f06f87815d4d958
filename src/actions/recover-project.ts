import { CoppiceError } from '../domain/errors.ts';
import type { ProjectId } from '../domain/ids.ts';
import { type BranchView, listBranches } from '../store/branches.ts';
import { lockProjectEvenDeleted, recoverProjectRow } from '../store/deleted-projects.ts';
import type { ProjectView } from '../store/projects.ts';
import { requireRole } from './access.ts';
import { type Caller, roleIn } from './caller.ts';
import type { ActionContext, InstallationFacts } from './context.ts';

/** Projects that were deleted before this are gone for good. */
export const recoverableSince = ({ keep_deleted_projects_seconds = 0 }: InstallationFacts): Date =>
  new Date(Date.now() - keep_deleted_projects_seconds * 1000);

/**
 * Brings a deleted project back with its branches, endpoints and snapshots; computes sleep. Who may delete it may do this.
 * One that is gone for good, or that the caller never saw, is `not_found`.
 */
export function recoverProject(
  context: ActionContext,
  caller: Caller,
  id: ProjectId,
): Promise<{ project: ProjectView; branches: BranchView[] }> {
  return context.store.transaction().execute(async (trx) => {
    const found = await lockProjectEvenDeleted(trx, id);
    const role = found && roleIn(caller, found.organization_id);
    if (!found || !role) throw new CoppiceError('not_found', { noun: 'project' });
    requireRole(role, 'admin');
    if (!found.deleted_at) throw new CoppiceError('project_not_deleted', { project_id: id });
    if (found.deleted_at <= recoverableSince(context.installation)) {
      throw new CoppiceError('not_found', { noun: 'project' });
    }
    const project = { ...(await recoverProjectRow(trx, id)), usage: found.usage };
    return { project, branches: await listBranches(trx, id, { sort_by: 'created_at', sort_order: 'asc' }) };
  });
}
