import { CoppiceError } from '../domain/errors.ts';
import { type BranchId, newBranchId, newTimelineId, type SnapshotId } from '../domain/ids.ts';
import { type BranchView, findBranch, findBranchIdByName, insertBranch } from '../store/branches.ts';
import { createCall } from '../store/calls.ts';
import type { StoreTransaction } from '../store/connection.ts';
import { insertDatabases } from '../store/databases.ts';
import { type EndpointView, findEndpointsOfBranch } from '../store/endpoints.ts';
import { freeBranchName } from '../store/free-branch-name.ts';
import { lockLiveProject } from '../store/projects.ts';
import { insertRoles } from '../store/roles.ts';
import type { OperationRow } from '../store/schema.ts';
import { databasesFromConfig, roleFromConfig } from '../store/snapshot-config.ts';
import type { SnapshotView } from '../store/snapshots.ts';
import { insertTimeline } from '../store/timelines.ts';
import { type AccessibleProject, findBranchOf, findSnapshotOf } from './access.ts';
import { type Caller, callerUserId } from './caller.ts';
import { newComputeIntent } from './compute-intent.ts';
import type { ActionContext } from './context.ts';
import { insertNewEndpoint } from './create-endpoint.ts';
import { endpointOperation } from './endpoint-operations.ts';
import { refuseUnmasked } from './masked-branch.ts';
import { requireQuota } from './require-quota.ts';
import { openRolePassword, sealRolePassword } from './role-secret.ts';
import { requireStorage } from './storage-reserve.ts';

/** Fields as in the API. */
export interface RestoreRequest {
  /** Of the new branch; until it takes its target's. */
  readonly name?: string;
  /** The branch to be replaced; without one that of which the snapshot is. */
  readonly target_branch_id?: BranchId;
  /** True: the new branch takes the target's place as soon as it is ready. False: it gets an endpoint to look at it. */
  readonly finalize_restore?: boolean;
}

export interface RestoredSnapshot {
  readonly branch: BranchView;
  readonly endpoints: readonly EndpointView[];
  readonly operations: readonly OperationRow[];
}

/** Makes a root branch of a snapshot, with the roles and databases that it has. Nothing happens to the target before it is ready. */
export async function restoreSnapshot(
  context: ActionContext,
  caller: Caller,
  project: AccessibleProject,
  id: SnapshotId,
  request: RestoreRequest,
): Promise<RestoredSnapshot> {
  await requireStorage(context, 'branch');
  const finalize = request.finalize_restore === true;
  return context.store.transaction().execute(async (trx) => {
    const settled = await lockLiveProject(trx, project.id);
    const snapshot = await findMadeSnapshot(trx, project, id);
    const target = await findTarget(trx, project, snapshot, request);
    if (target && target.id !== snapshot.source_branch_id) await refuseUnmasked(trx, target.id);
    const branch = await insertRestored(trx, caller, snapshot, target, request.name);
    await insertConfig(trx, context, snapshot, branch.id);
    if (!finalize) {
      requireQuota(settled);
      const intent = newComputeIntent({}, settled.default_endpoint_settings, context.installation);
      await insertNewEndpoint(trx, branch, { type: 'read_write' }, intent);
    }
    const endpoints = (await findEndpointsOfBranch(trx, branch.id)) ?? [];
    const operations = await createCall(trx, project.id, [
      {
        action: 'create_branch',
        branch_id: branch.id,
        timeline_id: branch.timeline_id,
        source_timeline_id: snapshot.timeline_id,
        arguments: { finalize_restore: finalize },
      },
      ...endpoints.map((endpoint) => endpointOperation('start_compute', endpoint)),
    ]);
    return { branch, endpoints: (await findEndpointsOfBranch(trx, branch.id)) ?? [], operations };
  });
}

async function findMadeSnapshot(trx: StoreTransaction, project: AccessibleProject, id: SnapshotId) {
  const snapshot = await findSnapshotOf(trx, project, id);
  if (!snapshot.ready_at)
    throw new CoppiceError(snapshot.being_made ? 'snapshot_not_ready' : 'snapshot_failed', { id });
  return snapshot;
}

/** The branch to be replaced; undefined where the snapshot's own is gone and nothing is to be replaced. */
async function findTarget(
  trx: StoreTransaction,
  project: AccessibleProject,
  { source_branch_id }: SnapshotView,
  { target_branch_id, finalize_restore }: RestoreRequest,
): Promise<BranchView | undefined> {
  if (target_branch_id) return findBranchOf(trx, project, target_branch_id);
  const source = await findBranch(trx, source_branch_id);
  if (source || !finalize_restore) return source;
  throw new CoppiceError('invalid_request', {
    field: 'target_branch_id',
    problem: "is needed, since the snapshot's branch was deleted",
  });
}

async function insertRestored(
  trx: StoreTransaction,
  caller: Caller,
  snapshot: SnapshotView,
  target: BranchView | undefined,
  wanted: string | undefined,
): Promise<BranchView> {
  const { project_id, distribution_id } = snapshot;
  if (wanted !== undefined && (await findBranchIdByName(trx, project_id, wanted))) {
    throw new CoppiceError('branch_exists', { name: wanted });
  }
  const timeline = await insertTimeline(trx, {
    id: newTimelineId(),
    project_id,
    parent_id: snapshot.timeline_id,
    distribution_id,
  });
  const branch = await insertBranch(trx, {
    id: newBranchId(),
    project_id,
    timeline_id: timeline.id,
    name: wanted ?? (await freeBranchName(trx, project_id, snapshot.name, 'restored')),
    created_by: callerUserId(caller),
    restore_status: 'restored',
    restored_from: snapshot.id,
    restored_as: target?.id,
  });
  return (await findBranch(trx, branch.id))!;
}

/** Roles and databases as they were; passwords too, since who had them is to get in again. */
async function insertConfig(
  trx: StoreTransaction,
  { vault }: ActionContext,
  { config, source_branch_id }: SnapshotView,
  branch_id: BranchId,
): Promise<void> {
  const roles = config.roles.map((kept) => {
    const password = openRolePassword(vault, roleFromConfig(kept, source_branch_id));
    const role = roleFromConfig(kept, branch_id);
    return { ...role, sealed_password: password === undefined ? null : sealRolePassword(vault, role, password) };
  });
  await insertRoles(trx, roles);
  await insertDatabases(trx, databasesFromConfig(config, branch_id));
}
