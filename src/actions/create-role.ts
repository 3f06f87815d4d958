import { CoppiceError } from '../domain/errors.ts';
import type { BranchId } from '../domain/ids.ts';
import { LIMITS } from '../domain/limits.ts';
import { identifierProblem, isReservedRole } from '../domain/names.ts';
import { countRoles, insertRole } from '../store/roles.ts';
import type { OperationRow, RoleRow } from '../store/schema.ts';
import type { AccessibleProject } from './access.ts';
import { changeBranchConfig } from './change-branch-config.ts';
import type { ActionContext } from './context.ts';
import { newRoleSecret } from './role-secret.ts';

/** Throws when a role cannot be called that; `field` is where the name was given. */
export function checkRoleName(name: string, field: string): void {
  const problem = identifierProblem(name);
  if (problem) throw new CoppiceError('invalid_request', { field, problem });
  if (isReservedRole(name)) throw new CoppiceError('name_reserved', { noun: 'role', name });
}

/** Makes a role that may do what a branch's owner may; one without login has no password. */
export async function createRole(
  context: ActionContext,
  project: AccessibleProject,
  branch_id: BranchId,
  { name, no_login = false }: { readonly name: string; readonly no_login?: boolean },
): Promise<{ role: RoleRow; password?: string; operations: OperationRow[] }> {
  checkRoleName(name, 'role.name');
  const secret = no_login ? undefined : await newRoleSecret(context.vault, { branch_id, name }, project);
  const { row, operations } = await changeBranchConfig(context, project, branch_id, async (trx, branch) => {
    if ((await countRoles(trx, branch.id)) >= LIMITS.roles_per_branch) {
      throw new CoppiceError('roles_limit', { limit: LIMITS.roles_per_branch });
    }
    const role = await insertRole(trx, {
      branch_id: branch.id,
      name,
      can_login: !no_login,
      verifier: secret?.verifier ?? null,
      sealed_password: secret?.sealed_password ?? null,
    });
    if (!role) throw new CoppiceError('role_exists', { name });
    return { row: role, changed: true };
  });
  return { role: row, password: secret?.password, operations };
}
