import type { BranchId } from '../domain/ids.ts';
import type { BranchView } from '../store/branches.ts';
import type { StoreTransaction } from '../store/connection.ts';
import { insertDatabases, listDatabases, listDatabasesEvenDeleted } from '../store/databases.ts';
import { insertRoles, listRoles, listRolesEvenDeleted } from '../store/roles.ts';
import type { DatabaseRow, RoleRow } from '../store/schema.ts';
import type { AccessibleProject } from './access.ts';
import type { ActionContext } from './context.ts';
import { newRoleSecret, openRolePassword, sealRolePassword } from './role-secret.ts';

export interface CopiedConfig {
  readonly roles: RoleRow[];
  readonly databases: DatabaseRow[];
  /** By role; those that are known. */
  readonly passwords: ReadonlyMap<string, string>;
}

/**
 * Gives a new branch the roles and databases of its parent, what is still to be dropped there included, since the
 * child's server starts out as a copy of the parent's. Roles made by the API get new passwords when the parent is
 * protected: who may enter a copy must not thereby enter the original.
 */
export async function copyBranchConfig(
  trx: StoreTransaction,
  context: ActionContext,
  project: AccessibleProject,
  parent: BranchView,
  branch_id: BranchId,
): Promise<CopiedConfig> {
  const passwords = new Map<string, string>();
  const roles = [];
  for (const { id: _, ...role } of await listRolesEvenDeleted(trx, parent.id)) {
    const copy = { ...role, branch_id };
    if (parent.protected && role.origin === 'api' && role.verifier !== null) {
      const { password, ...secret } = await newRoleSecret(context.vault, copy, project);
      passwords.set(role.name, password);
      roles.push({ ...copy, ...secret });
      continue;
    }
    const password = openRolePassword(context.vault, role);
    if (password !== undefined) passwords.set(role.name, password);
    roles.push({
      ...copy,
      sealed_password: password === undefined ? null : sealRolePassword(context.vault, copy, password),
    });
  }
  await insertRoles(trx, roles);
  const databases = await listDatabasesEvenDeleted(trx, parent.id);
  await insertDatabases(
    trx,
    databases.map(({ id: _, ...database }) => ({ ...database, branch_id })),
  );
  return { roles: await listRoles(trx, branch_id), databases: await listDatabases(trx, branch_id), passwords };
}
