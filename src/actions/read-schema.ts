import { CoppiceError } from '../domain/errors.ts';
import type { BranchId } from '../domain/ids.ts';
import type { SchemaReader, SchemaSource, SchemaTable } from '../domain/schema.ts';
import { findDatabase } from '../store/databases.ts';
import { findEndpointsOfBranch } from '../store/endpoints.ts';
import { type AccessibleProject, findBranchOf } from './access.ts';
import { readAskedPoint } from './asked-point.ts';
import type { ActionContext } from './context.ts';
import { requireReady } from './require-ready.ts';
import { travelToPoint } from './travel-to-point.ts';

/** A point of a branch's history; fields as in the API. */
export interface SchemaPoint {
  readonly lsn?: string;
  readonly timestamp?: string;
}

/** The schema of one database of a branch as SQL. Wakes the branch's compute, or looks at a copy of the past. */
export async function readSchemaSql(
  context: ActionContext,
  project: AccessibleProject,
  branch_id: BranchId,
  database: string,
  point: SchemaPoint,
): Promise<string> {
  const source = await findSource(context, project, branch_id, database, point);
  return readerOf(context).sql(source);
}

/** The tables of one database of a branch. Wakes the branch's compute. */
export async function readSchemaTables(
  context: ActionContext,
  project: AccessibleProject,
  branch_id: BranchId,
  database: string,
  point: SchemaPoint,
): Promise<readonly SchemaTable[]> {
  const source = await findSource(context, project, branch_id, database, point);
  return readerOf(context).tables(source);
}

/**
 * How the schema of one database differs from that of the same database of another branch, the parent if none is named,
 * as a unified diff. Wakes the computes of both.
 */
export async function compareSchemas(
  context: ActionContext,
  project: AccessibleProject,
  compared: { branch_id: BranchId; base_branch_id?: BranchId; database: string },
  points: { base: SchemaPoint; branch: SchemaPoint },
): Promise<string> {
  const { database, branch_id } = compared;
  const branch = await findBranchOf(context.store, project, branch_id);
  const source = await findSource(context, project, branch_id, database, points.branch);
  const base_branch_id = compared.base_branch_id ?? branch.parent_id;
  if (!base_branch_id) {
    const problem = 'is needed, since the branch has no parent to be compared with';
    throw new CoppiceError('invalid_request', { field: 'base_branch_id', problem });
  }
  const baseSource = await findSource(context, project, base_branch_id, database, points.base);
  const reader = readerOf(context);
  const base = await reader.sql(baseSource);
  return reader.diff({ database, base, schema: await reader.sql(source) });
}

/** Where no computes can be reached there is nobody to read: throws `unavailable`. */
export function readerOf({ schemas }: ActionContext): SchemaReader {
  if (!schemas) throw new CoppiceError('unavailable');
  return schemas;
}

/**
 * The database of a branch, and the compute that shows it: the branch's own, or a copy of the past. Throws errors for
 * callers where there is none.
 */
export async function findSource(
  context: ActionContext,
  project: AccessibleProject,
  id: BranchId,
  name: string,
  { lsn, timestamp }: SchemaPoint,
): Promise<SchemaSource> {
  const { store } = context;
  const asked = readAskedPoint({
    lsn: { field: 'lsn', value: lsn },
    timestamp: { field: 'timestamp', value: timestamp },
  });
  const branch = await findBranchOf(store, project, id);
  await requireReady(store, branch);
  const source = { project_id: project.id, branch_id: branch.id, database: name };
  const known = await findDatabase(store, branch.id, name);
  if (asked) {
    // The same copy that clients see of the past, if one is there; the database may be gone since.
    const role = known?.owner_name ?? '';
    return { ...source, endpoint_id: await travelToPoint(context, branch.id, { lsn, timestamp }, role) };
  }
  const endpoint = (await findEndpointsOfBranch(store, branch.id))?.find(({ type }) => type === 'read_write');
  if (!endpoint) throw new CoppiceError('branch_without_compute', { verb: 'read its schema', id: branch.id });
  if (endpoint.disabled) throw new CoppiceError('endpoint_disabled', { id: endpoint.id });
  // One that was made in SQL is not known yet; only the server can tell, and no compute is woken for a wrong name.
  if (!known && endpoint.observed_state !== 'running') throw new CoppiceError('not_found', { noun: 'database' });
  return { ...source, endpoint_id: endpoint.id };
}
