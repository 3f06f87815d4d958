import type { Insertable } from 'kysely';
import type { BranchId } from '../domain/ids.ts';
import type { BranchView } from '../store/branches.ts';
import type { StoreTransaction } from '../store/connection.ts';
import { insertDatabases, listDatabases, listDatabasesEvenDeleted } from '../store/databases.ts';
import { insertRoles, listRoles, listRolesEvenDeleted } from '../store/roles.ts';
import type { DatabaseRow, DatabasesTable, RoleRow, RolesTable } from '../store/schema.ts';
import type { AccessibleProject } from './access.ts';
import type { ActionContext } from './context.ts';
import { newRoleSecret, openRolePassword, sealRolePassword } from './role-secret.ts';

/** Rows for a branch that begins as a copy of another one. */
export interface ConfigCopy {
  readonly roles: Insertable<RolesTable>[];
  readonly databases: Insertable<DatabasesTable>[];
  /** By role; those that are known. */
  readonly passwords: ReadonlyMap<string, string>;
}

/**
 * The roles and databases of a branch as rows for another one, what is still to be dropped there included, since the
 * other's server starts out as a copy. Roles made by the API get new passwords when the source is protected: who may
 * enter a copy must not thereby enter the original.
 */
export async function readConfigCopy(
  trx: StoreTransaction,
  context: ActionContext,
  project: AccessibleProject,
  source: Pick<BranchView, 'id' | 'protected'>,
  branch_id: BranchId,
): Promise<ConfigCopy> {
  const passwords = new Map<string, string>();
  const roles = [];
  for (const { id: _, ...role } of await listRolesEvenDeleted(trx, source.id)) {
    const copy = { ...role, branch_id };
    if (source.protected && role.origin !== 'sql' && role.verifier !== null) {
      // One that is stored is needed as such: it lets in those who come with a token.
      const store_passwords = project.store_passwords || role.sealed_password !== null;
      const { password, ...secret } = await newRoleSecret(context.vault, copy, { store_passwords });
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
  const databases = await listDatabasesEvenDeleted(trx, source.id);
  return { roles, databases: databases.map(({ id: _, ...database }) => ({ ...database, branch_id })), passwords };
}

/** Gives a new branch the roles and databases of its parent. */
export async function copyBranchConfig(
  trx: StoreTransaction,
  context: ActionContext,
  project: AccessibleProject,
  parent: Pick<BranchView, 'id' | 'protected'>,
  branch_id: BranchId,
): Promise<{ roles: RoleRow[]; databases: DatabaseRow[]; passwords: ConfigCopy['passwords'] }> {
  const { roles, databases, passwords } = await readConfigCopy(trx, context, project, parent, branch_id);
  await insertRoles(trx, roles);
  await insertDatabases(trx, databases);
  return { roles: await listRoles(trx, branch_id), databases: await listDatabases(trx, branch_id), passwords };
}
