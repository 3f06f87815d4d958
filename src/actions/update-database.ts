import { CoppiceError } from '../domain/errors.ts';
import type { BranchId } from '../domain/ids.ts';
import { findDatabase, updateDatabase as writeDatabase } from '../store/databases.ts';
import type { DatabaseRow, OperationRow } from '../store/schema.ts';
import type { AccessibleProject } from './access.ts';
import { changeBranchConfig } from './change-branch-config.ts';
import type { ActionContext } from './context.ts';
import { checkDatabaseName, checkDatabaseOwner } from './create-database.ts';

/** Renames a database or gives it another owner. Nothing happens when it is so already. */
export async function updateDatabase(
  context: ActionContext,
  project: AccessibleProject,
  branch_id: BranchId,
  name: string,
  wanted: { readonly name?: string; readonly owner_name?: string },
): Promise<{ database: DatabaseRow; operations: OperationRow[] }> {
  if (wanted.name !== undefined) checkDatabaseName(wanted.name);
  const { row, operations } = await changeBranchConfig(context, project, branch_id, async (trx, branch) => {
    const database = await findDatabase(trx, branch.id, name);
    if (!database) throw new CoppiceError('not_found', { noun: 'database' });
    const after = { name: wanted.name ?? database.name, owner_name: wanted.owner_name ?? database.owner_name };
    if (after.owner_name !== database.owner_name) await checkDatabaseOwner(trx, branch.id, after.owner_name);
    if (after.name !== database.name && (await findDatabase(trx, branch.id, after.name))) {
      throw new CoppiceError('database_exists', { name: after.name });
    }
    const changed = after.name !== database.name || after.owner_name !== database.owner_name;
    return { row: changed ? await writeDatabase(trx, database.id, after) : database, changed };
  });
  return { database: row, operations };
}
