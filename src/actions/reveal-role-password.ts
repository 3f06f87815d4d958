import { CoppiceError } from '../domain/errors.ts';
import type { BranchId } from '../domain/ids.ts';
import { findRole } from '../store/roles.ts';
import { type AccessibleProject, findBranchOf } from './access.ts';
import type { ActionContext } from './context.ts';
import { openRolePassword } from './role-secret.ts';

/** The role's password, where the project stores passwords and it was not set in SQL. */
export async function revealRolePassword(
  context: ActionContext,
  project: AccessibleProject,
  branch_id: BranchId,
  name: string,
): Promise<string> {
  const branch = await findBranchOf(context.store, project, branch_id);
  const role = await findRole(context.store, branch.id, name);
  if (!role) throw new CoppiceError('not_found', { noun: 'role' });
  if (!project.store_passwords) throw new CoppiceError('passwords_not_stored', { project_id: project.id });
  const password = openRolePassword(context.vault, role);
  if (password === undefined) throw new CoppiceError('role_without_password', { name });
  return password;
}
