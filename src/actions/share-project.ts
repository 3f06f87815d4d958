import { CoppiceError } from '../domain/errors.ts';
import { LIMITS } from '../domain/limits.ts';
import { countProjectPermissions, upsertProjectPermission } from '../store/project-permissions.ts';
import { lockLiveProject } from '../store/projects.ts';
import type { ProjectPermissionRow } from '../store/schema.ts';
import type { AccessibleProject } from './access.ts';
import { type Caller, callerUserId } from './caller.ts';
import type { ActionContext } from './context.ts';

/**
 * Lets whoever has this address use a project: all of it, but for what only admins of its organisation may. The account need
 * not be there yet. Sharing it again changes nothing.
 */
export function shareProject(
  { store }: Pick<ActionContext, 'store'>,
  caller: Caller,
  { id: project_id }: AccessibleProject,
  email: string,
): Promise<ProjectPermissionRow> {
  return store.transaction().execute(async (trx) => {
    await lockLiveProject(trx, project_id);
    const granted = await upsertProjectPermission(trx, { project_id, email, granted_by: callerUserId(caller) });
    const limit = LIMITS.permissions_per_project;
    if ((await countProjectPermissions(trx, project_id)) > limit)
      throw new CoppiceError('permissions_limit', { limit });
    return granted;
  });
}
