import { CoppiceError } from '../domain/errors.ts';
import { listProtectedBranches } from '../store/branches.ts';
import { cancelUnfinished, createCall } from '../store/calls.ts';
import { forgetKeptBranches } from '../store/deleted-branches.ts';
import { isWhole } from '../store/deleted-projects.ts';
import { findEndpointsOfProject } from '../store/endpoints.ts';
import { deleteJwksOfProject } from '../store/project-jwks.ts';
import { lockLiveProject, markProjectDeleted, type ProjectView } from '../store/projects.ts';
import type { AccessibleProject } from './access.ts';
import type { ActionContext } from './context.ts';
import { endpointOperation, mayRun } from './endpoint-operations.ts';

/**
 * Deletes a project with all that is in it; one with a protected branch is refused. Where deleted projects are kept it can
 * come back for a while; one that is still being made, or has a restore under way, cannot.
 */
export function deleteProject(context: ActionContext, { id }: AccessibleProject): Promise<ProjectView> {
  return context.store.transaction().execute(async (trx) => {
    const { usage } = await lockLiveProject(trx, id);
    const branches = await listProtectedBranches(trx, id);
    if (branches.length > 0) {
      const named = branches.map((branch) => `${branch.id} (${branch.name})`).join(', ');
      throw new CoppiceError('project_has_protected_branch', { branches: named });
    }
    const { keep_deleted_projects_seconds = 0 } = context.installation;
    const may_return = keep_deleted_projects_seconds > 0 && (await isWhole(trx, id));
    const running = may_return ? ((await findEndpointsOfProject(trx, id)) ?? []).filter(mayRun) : [];
    await cancelUnfinished(trx, { project_id: id });
    if (!may_return) await deleteJwksOfProject(trx, id);
    if (!may_return) await forgetKeptBranches(trx, id);
    const project = await markProjectDeleted(trx, id, may_return);
    const stops = running.map((endpoint) => endpointOperation('suspend_compute', endpoint));
    await createCall(trx, id, may_return ? stops : [{ action: 'delete_tenant' }]);
    return { ...project, usage };
  });
}
