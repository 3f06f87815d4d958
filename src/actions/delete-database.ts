import type { BranchId } from '../domain/ids.ts';
import { findDatabase, markDatabaseDeleted } from '../store/databases.ts';
import type { DatabaseRow, OperationRow } from '../store/schema.ts';
import type { AccessibleProject } from './access.ts';
import { changeBranchConfig } from './change-branch-config.ts';
import type { ActionContext } from './context.ts';

/** Deletes a database. Undefined when there is none of that name. */
export async function deleteDatabase(
  context: ActionContext,
  project: AccessibleProject,
  branch_id: BranchId,
  name: string,
): Promise<{ database: DatabaseRow; operations: OperationRow[] } | undefined> {
  const { row, operations } = await changeBranchConfig(context, project, branch_id, async (trx, branch) => {
    const database = await findDatabase(trx, branch.id, name);
    if (database) await markDatabaseDeleted(trx, database.id);
    return { row: database, changed: database !== undefined };
  });
  return row && { database: row, operations };
}
