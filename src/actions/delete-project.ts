import { CoppiceError } from '../domain/errors.ts';
import { listProtectedBranches } from '../store/branches.ts';
import { cancelUnfinished, createCall } from '../store/calls.ts';
import { deleteJwksOfProject } from '../store/project-jwks.ts';
import { lockLiveProject, markProjectDeleted } from '../store/projects.ts';
import type { ProjectRow } from '../store/schema.ts';
import type { AccessibleProject } from './access.ts';
import type { ActionContext } from './context.ts';

/** Deletes a project with all that is in it, at once and for good; one with a protected branch is refused. */
export function deleteProject(context: ActionContext, { id }: AccessibleProject): Promise<ProjectRow> {
  return context.store.transaction().execute(async (trx) => {
    await lockLiveProject(trx, id);
    const branches = await listProtectedBranches(trx, id);
    if (branches.length > 0) {
      const named = branches.map((branch) => `${branch.id} (${branch.name})`).join(', ');
      throw new CoppiceError('project_has_protected_branch', { branches: named });
    }
    await cancelUnfinished(trx, { project_id: id });
    await deleteJwksOfProject(trx, id);
    const project = await markProjectDeleted(trx, id);
    await createCall(trx, id, [{ action: 'delete_tenant' }]);
    return project;
  });
}
