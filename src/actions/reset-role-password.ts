import { CoppiceError } from '../domain/errors.ts';
import type { BranchId } from '../domain/ids.ts';
import { isReservedRole } from '../domain/names.ts';
import { findRole, updateRolePassword } from '../store/roles.ts';
import type { OperationRow, RoleRow } from '../store/schema.ts';
import type { AccessibleProject } from './access.ts';
import { changeBranchConfig } from './change-branch-config.ts';
import type { ActionContext } from './context.ts';
import { newRoleSecret } from './role-secret.ts';

/** Gives a role a new password. A running server takes the old one until the operations have finished. */
export async function resetRolePassword(
  context: ActionContext,
  project: AccessibleProject,
  branch_id: BranchId,
  name: string,
): Promise<{ role: RoleRow; password: string; operations: OperationRow[] }> {
  if (isReservedRole(name)) throw new CoppiceError('role_protected', { name });
  const { password, ...secret } = await newRoleSecret(context.vault, { branch_id, name }, project);
  const { row, operations } = await changeBranchConfig(context, project, branch_id, async (trx, branch) => {
    const role = await findRole(trx, branch.id, name);
    if (!role) throw new CoppiceError('not_found', { noun: 'role' });
    if (!role.can_login) throw new CoppiceError('role_cannot_login', { name });
    return { row: await updateRolePassword(trx, role.id, secret), changed: true };
  });
  return { role: row, password, operations };
}
