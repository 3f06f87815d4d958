import { CoppiceError } from '../domain/errors.ts';
import type { AskedPoint, HistoryPoint } from '../domain/history.ts';
import { type BranchId, type EndpointId, newBranchId, newTimelineId } from '../domain/ids.ts';
import { LIMITS } from '../domain/limits.ts';
import { type BranchView, findBranch, insertBranch } from '../store/branches.ts';
import { createCall } from '../store/calls.ts';
import type { Store, StoreTransaction } from '../store/connection.ts';
import { findEndpoint, findEndpointsOfBranch } from '../store/endpoints.ts';
import { countEphemeralBranches, findEphemeralEndpoint, type Viewpoint } from '../store/ephemeral-branches.ts';
import { lockLiveProject } from '../store/projects.ts';
import { insertRoles, listRoles } from '../store/roles.ts';
import { insertTimeline } from '../store/timelines.ts';
import { readAskedPoint } from './asked-point.ts';
import type { ActionContext } from './context.ts';
import { insertNewEndpoint } from './create-endpoint.ts';
import { endpointOperation, willRun } from './endpoint-operations.ts';
import { requireQuota } from './require-quota.ts';
import { requireReady } from './require-ready.ts';
import { requireStorage } from './storage-reserve.ts';

/** One of the two, as a client wrote it. */
export interface PointTexts {
  readonly lsn?: string;
  readonly timestamp?: string;
}

/** What a look into the past runs with. */
const TRAVEL_CU = 0.5;

/**
 * Gives somebody who connects, and was let in by the gateway as one of the branch's roles, a read-only copy of the branch
 * as it was at a point; no caller is asked for. Those who go to the same point share a copy. It goes when nobody uses it.
 *
 * @returns the copy's endpoint, which runs or is being started. Throws `point_outside_history` with the bounds, and
 *   `points_exceeded` where there are too many copies.
 */
export async function travelToPoint(
  context: ActionContext,
  branch_id: BranchId,
  texts: PointTexts,
  role: string,
): Promise<EndpointId> {
  const asked = readPointTexts(texts);
  const { timeline_id, project_id } = await findTravelled(context.store, branch_id);
  const point = await context.history.resolve(timeline_id, asked);
  const viewpoint = { branch_id, timeline_id, lsn: point.lsn, role };
  // A look without locks first: it answers all but the first of those who stay for a while.
  const shared = await findEphemeralEndpoint(context.store, viewpoint);
  if (shared && (await runs(context.store, shared))) return shared;
  await requireStorage(context, 'branch');
  return context.store.transaction().execute(async (trx) => {
    requireQuota(await lockLiveProject(trx, project_id));
    const branch = await findTravelled(trx, branch_id);
    // It was restored since the point was found.
    if (branch.timeline_id !== timeline_id) throw new CoppiceError('operations_running');
    return (await joinCopy(trx, viewpoint)) ?? (await makeCopy(trx, context, branch, point));
  });
}

function readPointTexts({ lsn, timestamp }: PointTexts): AskedPoint {
  const asked = readAskedPoint({
    lsn: { field: 'neon_lsn', value: lsn },
    timestamp: { field: 'neon_timestamp', value: timestamp },
  });
  if (asked) return asked;
  const field = lsn === undefined ? 'neon_timestamp' : 'neon_lsn';
  throw new CoppiceError('invalid_request', { field, problem: 'must not be empty' });
}

async function findTravelled(store: Store, id: BranchId): Promise<BranchView> {
  const branch = await findBranch(store, id);
  if (!branch) throw new CoppiceError('not_found', { noun: 'branch' });
  await requireReady(store, branch);
  return branch;
}

async function runs(store: Store, id: EndpointId): Promise<boolean> {
  const endpoint = await findEndpoint(store, id);
  return endpoint !== undefined && willRun(endpoint);
}

/** One that sleeps is started before it is removed. */
async function joinCopy(trx: StoreTransaction, viewpoint: Viewpoint): Promise<EndpointId | undefined> {
  const id = await findEphemeralEndpoint(trx, viewpoint);
  const endpoint = id && (await findEndpoint(trx, id));
  if (!endpoint) return undefined;
  if (!willRun(endpoint)) await createCall(trx, endpoint.project_id, [endpointOperation('start_compute', endpoint)]);
  return id;
}

async function makeCopy(
  trx: StoreTransaction,
  context: ActionContext,
  branch: BranchView,
  point: HistoryPoint,
): Promise<EndpointId> {
  const limit = LIMITS.ephemeral_branches_per_project;
  const { project_id } = branch;
  if ((await countEphemeralBranches(trx, project_id)) >= limit) throw new CoppiceError('points_exceeded', { limit });
  const { id: timeline_id } = await insertTimeline(trx, {
    id: newTimelineId(),
    project_id,
    parent_id: branch.timeline_id,
    distribution_id: branch.distribution_id,
  });
  const id = newBranchId();
  await insertBranch(trx, { id, project_id, timeline_id, ephemeral_of: branch.id, parent_lsn: point.lsn, name: id });
  const endpoint_id = await insertTravelEndpoint(trx, context, branch, { id, project_id });
  await createCall(trx, project_id, [
    {
      action: 'create_branch',
      branch_id: id,
      timeline_id,
      source_timeline_id: branch.timeline_id,
      arguments: { point, ephemeral: true },
    },
    endpointOperation('start_compute', { id: endpoint_id, branch_id: id, timeline_id }),
  ]);
  return endpoint_id;
}

/** With the settings that statements have in the present, and the roles of the present; those of then are seen to later. */
async function insertTravelEndpoint(
  trx: StoreTransaction,
  { installation }: ActionContext,
  branch: BranchView,
  copy: { readonly id: BranchId; readonly project_id: string },
): Promise<EndpointId> {
  const roles = await listRoles(trx, branch.id);
  // Nobody is ever shown the passwords of a copy.
  await insertRoles(
    trx,
    roles.map(({ id: _, ...role }) => ({ ...role, branch_id: copy.id, sealed_password: null })),
  );
  const present = (await findEndpointsOfBranch(trx, branch.id))?.find(({ type }) => type === 'read_write');
  return insertNewEndpoint(
    trx,
    copy,
    { type: 'read_write' },
    {
      min_cu: TRAVEL_CU,
      max_cu: TRAVEL_CU,
      suspend_timeout_seconds: installation.time_travel_timeout_seconds,
      pg_settings: present?.pg_settings ?? {},
    },
  );
}
