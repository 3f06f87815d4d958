import { CoppiceError } from '../domain/errors.ts';
import type { BranchId } from '../domain/ids.ts';
import { LIMITS } from '../domain/limits.ts';
import type { BranchView } from '../store/branches.ts';
import type { Store } from '../store/connection.ts';
import { lockLiveProject } from '../store/projects.ts';
import type { OperationRow } from '../store/schema.ts';
import { writeSnapshot } from '../store/snapshot-intent.ts';
import { countSnapshots, type SnapshotView } from '../store/snapshots.ts';
import { type AccessibleProject, findBranchOf, findSnapshotOf } from './access.ts';
import { readAskedPoint } from './asked-point.ts';
import { type Caller, callerUserId } from './caller.ts';
import type { ActionContext } from './context.ts';
import { requireReady } from './require-ready.ts';
import { readSnapshotExpiry } from './snapshot-expiry.ts';
import { requireStorage } from './storage-reserve.ts';

/** Fields as in the API. Without a point it is of the branch's present. */
export interface SnapshotRequest {
  readonly name?: string;
  readonly lsn?: string;
  readonly timestamp?: string;
  /** RFC 3339; without one it stays until it is deleted. */
  readonly expires_at?: string;
}

/** Makes a snapshot of a root branch; others have their parents, to which they can be reset. */
export async function createSnapshot(
  context: ActionContext,
  caller: Caller,
  project: AccessibleProject,
  branch_id: BranchId,
  request: SnapshotRequest,
): Promise<{ snapshot: SnapshotView; operations: OperationRow[] }> {
  const now = new Date();
  const expires_at = request.expires_at ? readSnapshotExpiry('expires_at', request.expires_at, now) : null;
  const origin = await findOrigin(context, project, branch_id, request);
  await requireStorage(context, 'snapshot');
  return context.store.transaction().execute(async (trx) => {
    await lockLiveProject(trx, project.id);
    const branch = await findSource(trx, project, branch_id);
    // It was restored since the point was found.
    if (origin && origin.timeline_id !== branch.timeline_id) throw new CoppiceError('operations_running');
    if ((await countSnapshots(trx, project.id)) >= LIMITS.snapshots_per_project) {
      throw new CoppiceError('snapshots_limit', { limit: LIMITS.snapshots_per_project });
    }
    const { id, operations } = await writeSnapshot(trx, branch, {
      name: request.name ?? defaultName(branch, origin?.point.timestamp ?? now),
      manual: true,
      created_by: callerUserId(caller),
      expires_at,
      point: origin?.point,
    });
    return { snapshot: await findSnapshotOf(trx, project, id), operations };
  });
}

async function findSource(store: Store, project: AccessibleProject, id: BranchId): Promise<BranchView> {
  const branch = await findBranchOf(store, project, id);
  if (branch.parent_id) {
    throw new CoppiceError('branch_not_root', { verb: 'have snapshots', id, parent_id: branch.parent_id });
  }
  await requireReady(store, branch);
  return branch;
}

/** The point that was asked for, and the timeline that it is of; undefined: the present. */
async function findOrigin(
  context: ActionContext,
  project: AccessibleProject,
  branch_id: BranchId,
  { lsn, timestamp }: SnapshotRequest,
) {
  const asked = readAskedPoint({
    lsn: { field: 'lsn', value: lsn },
    timestamp: { field: 'timestamp', value: timestamp },
  });
  if (!asked) return undefined;
  const { timeline_id } = await findSource(context.store, project, branch_id);
  return { timeline_id, point: await context.history.resolve(timeline_id, asked) };
}

function defaultName({ name }: BranchView, at: Date): string {
  const suffix = ` at ${at.toISOString().slice(0, 19)}Z`;
  return [...name].slice(0, LIMITS.name_characters - suffix.length).join('') + suffix;
}
