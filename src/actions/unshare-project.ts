import { CoppiceError } from '../domain/errors.ts';
import { revokeProjectPermission } from '../store/project-permissions.ts';
import type { ProjectPermissionRow } from '../store/schema.ts';
import type { AccessibleProject } from './access.ts';
import type { ActionContext } from './context.ts';

/** Ends a permission to use a project, from the next request on. `not_found` when there is none, or no longer. */
export async function unshareProject(
  { store }: Pick<ActionContext, 'store'>,
  project: AccessibleProject,
  permission_id: string,
): Promise<ProjectPermissionRow> {
  const revoked = await revokeProjectPermission(store, project.id, permission_id);
  if (!revoked) throw new CoppiceError('not_found', { noun: 'permission' });
  return revoked;
}
