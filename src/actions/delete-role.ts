import { CoppiceError } from '../domain/errors.ts';
import type { BranchId } from '../domain/ids.ts';
import { isReservedRole } from '../domain/names.ts';
import { listDatabases } from '../store/databases.ts';
import { findRole, markRoleDeleted } from '../store/roles.ts';
import type { OperationRow, RoleRow } from '../store/schema.ts';
import type { AccessibleProject } from './access.ts';
import { changeBranchConfig } from './change-branch-config.ts';
import type { ActionContext } from './context.ts';

/** Deletes a role that owns no database. Undefined when there is none of that name. */
export async function deleteRole(
  context: ActionContext,
  project: AccessibleProject,
  branch_id: BranchId,
  name: string,
): Promise<{ role: RoleRow; operations: OperationRow[] } | undefined> {
  if (isReservedRole(name)) throw new CoppiceError('role_protected', { name });
  const { row, operations } = await changeBranchConfig(context, project, branch_id, async (trx, branch) => {
    const role = await findRole(trx, branch.id, name);
    if (!role) return { row: undefined, changed: false };
    const owned = (await listDatabases(trx, branch.id)).filter(({ owner_name }) => owner_name === name);
    if (owned.length > 0) {
      const databases = owned.map((database) => database.name).join(', ');
      throw new CoppiceError('role_owns_databases', { name, databases });
    }
    await markRoleDeleted(trx, role.id);
    return { row: role, changed: true };
  });
  return row && { role: row, operations };
}
