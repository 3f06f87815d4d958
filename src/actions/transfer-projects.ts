import { CoppiceError } from '../domain/errors.ts';
import type { OrganizationId, ProjectId } from '../domain/ids.ts';
import { lockLiveProject } from '../store/projects.ts';
import { requireRole } from './access.ts';
import { type PersonalCaller, roleIn } from './caller.ts';
import type { ActionContext } from './context.ts';
import { moveProject } from './move-project.ts';

/**
 * Gives projects to another organisation that the caller is a member of: all, or none. The caller has to be an admin of the
 * organisation that has them; where that is named, they all have to be there. What the caller may not see is `not_found`.
 */
export async function transferProjects(
  { store }: Pick<ActionContext, 'store'>,
  caller: PersonalCaller,
  { project_ids, from, to }: { project_ids: readonly ProjectId[]; from?: OrganizationId; to: OrganizationId },
): Promise<void> {
  if (!roleIn(caller, to)) throw new CoppiceError('not_found', { noun: 'organization' });
  await store.transaction().execute(async (trx) => {
    // In one order for everybody: two that want the same ones do not wait for each other.
    for (const id of [...new Set(project_ids)].sort()) {
      const project = await lockLiveProject(trx, id);
      const held = roleIn(caller, project.organization_id);
      if (!held || (from !== undefined && project.organization_id !== from)) {
        throw new CoppiceError('not_found', { noun: 'project' });
      }
      requireRole(held, 'admin');
      await moveProject(trx, project, to);
    }
  });
}
