import { CoppiceError } from '../domain/errors.ts';
import type { BranchId } from '../domain/ids.ts';
import { LINTS, type LintCategory, type LintLevel } from '../domain/lints.ts';
import type { SchemaFinding } from '../domain/schema.ts';
import { findDefaultBranch } from '../store/branches.ts';
import { listDatabases } from '../store/databases.ts';
import { type AccessibleProject, findBranchOf } from './access.ts';
import type { ActionContext } from './context.ts';
import { findSource, readerOf } from './read-schema.ts';

/** What is to be looked at, and what of it shown; fields as in the API. */
export interface AdviceQuery {
  /** The default branch, unless given. */
  readonly branch_id?: BranchId;
  /** The only one, unless given. */
  readonly database_name?: string;
  readonly category?: LintCategory;
  readonly min_severity?: LintLevel;
}

const SEVERITY: Readonly<Record<LintLevel, number>> = { INFO: 0, WARN: 1, ERROR: 2 };

/** What could be better in a database of a branch. Wakes the branch's compute. */
export async function listAdvice(
  context: ActionContext,
  project: AccessibleProject,
  { branch_id, database_name, category, min_severity = 'INFO' }: AdviceQuery,
): Promise<SchemaFinding[]> {
  const { store } = context;
  const branch = branch_id ? await findBranchOf(store, project, branch_id) : await findDefaultBranch(store, project.id);
  if (!branch) throw new CoppiceError('not_found', { noun: 'branch' });
  const database = database_name ?? (await onlyDatabase(context, branch.id));
  const source = await findSource(context, project, branch.id, database, {});
  const findings = await readerOf(context).findings(source);
  return findings.filter(({ lint }) => {
    const { level, category: found } = LINTS[lint];
    return SEVERITY[level] >= SEVERITY[min_severity] && (category ?? found) === found;
  });
}

async function onlyDatabase({ store }: ActionContext, branch_id: BranchId): Promise<string> {
  const databases = await listDatabases(store, branch_id);
  if (databases.length === 1) return databases[0]!.name;
  const problem = `is needed, since the branch has ${databases.length} databases`;
  throw new CoppiceError('invalid_request', { field: 'database_name', problem });
}
