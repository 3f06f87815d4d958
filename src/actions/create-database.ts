import { CoppiceError } from '../domain/errors.ts';
import type { BranchId } from '../domain/ids.ts';
import { LIMITS } from '../domain/limits.ts';
import { identifierProblem, isReservedDatabase } from '../domain/names.ts';
import type { StoreTransaction } from '../store/connection.ts';
import { countDatabases, insertDatabase } from '../store/databases.ts';
import { findRole } from '../store/roles.ts';
import type { DatabaseRow, OperationRow } from '../store/schema.ts';
import type { AccessibleProject } from './access.ts';
import { changeBranchConfig } from './change-branch-config.ts';
import type { ActionContext } from './context.ts';

/** Throws when a database cannot be called that; `field` is where the name was given. */
export function checkDatabaseName(name: string, field = 'database.name'): void {
  const problem = identifierProblem(name);
  if (problem) throw new CoppiceError('invalid_request', { field, problem });
  if (isReservedDatabase(name)) throw new CoppiceError('name_reserved', { noun: 'database', name });
}

/** Throws when the branch has no such role to own a database. */
export async function checkDatabaseOwner(trx: StoreTransaction, branch_id: BranchId, name: string): Promise<void> {
  if (!(await findRole(trx, branch_id, name))) throw new CoppiceError('database_owner_not_found', { name });
}

/** Makes a database that a role of the branch owns. */
export async function createDatabase(
  context: ActionContext,
  project: AccessibleProject,
  branch_id: BranchId,
  { name, owner_name }: { readonly name: string; readonly owner_name: string },
): Promise<{ database: DatabaseRow; operations: OperationRow[] }> {
  checkDatabaseName(name);
  const { row, operations } = await changeBranchConfig(context, project, branch_id, async (trx, branch) => {
    await checkDatabaseOwner(trx, branch.id, owner_name);
    if ((await countDatabases(trx, branch.id)) >= LIMITS.databases_per_branch) {
      throw new CoppiceError('databases_limit', { limit: LIMITS.databases_per_branch });
    }
    const database = await insertDatabase(trx, { branch_id: branch.id, name, owner_name });
    if (!database) throw new CoppiceError('database_exists', { name });
    return { row: database, changed: true };
  });
  return { database: row, operations };
}
