import type { HistoryPoint } from '../domain/history.ts';
import { newSnapshotId, newTimelineId, type SnapshotId, type UserId } from '../domain/ids.ts';
import type { BranchView } from './branches.ts';
import { cancelUnfinished, createCall } from './calls.ts';
import type { StoreTransaction } from './connection.ts';
import type { OperationRow } from './schema.ts';
import { readBranchConfig } from './snapshot-config.ts';
import { insertSnapshot, markSnapshotDeleted, type SnapshotView } from './snapshots.ts';
import { insertTimeline, markTimelineDeleted } from './timelines.ts';

/** What callers and the chores write to have a snapshot made or deleted. Belongs behind the project's lock. */

export interface NewSnapshot {
  readonly name: string;
  readonly manual: boolean;
  readonly created_by: UserId | null;
  readonly expires_at: Date | null;
  /** Undefined: the branch's present. */
  readonly point?: HistoryPoint;
}

/** Writes a snapshot of a branch, which an operation makes. */
export async function writeSnapshot(
  trx: StoreTransaction,
  branch: BranchView,
  { point, ...wanted }: NewSnapshot,
): Promise<{ id: SnapshotId; operations: OperationRow[] }> {
  const { project_id, timeline_id: source_timeline_id, distribution_id } = branch;
  const timeline = await insertTimeline(trx, {
    id: newTimelineId(),
    project_id,
    parent_id: source_timeline_id,
    distribution_id,
  });
  const id = newSnapshotId();
  await insertSnapshot(trx, {
    ...wanted,
    id,
    project_id,
    source_branch_id: branch.id,
    timeline_id: timeline.id,
    config: JSON.stringify(await readBranchConfig(trx, branch.id)),
    lsn: point?.lsn,
    timestamp: point?.timestamp,
  });
  const operations = await createCall(trx, project_id, [
    {
      action: 'create_branch',
      branch_id: branch.id,
      timeline_id: timeline.id,
      source_timeline_id,
      arguments: { snapshot_id: id, point },
    },
  ]);
  return { id, operations };
}

/** Writes that a snapshot goes, made or not. What is being restored from it is restored first. */
export async function writeSnapshotDeletion(
  trx: StoreTransaction,
  { id, project_id, source_branch_id, timeline_id }: SnapshotView,
): Promise<OperationRow[]> {
  await cancelUnfinished(trx, { timeline_id });
  await markSnapshotDeleted(trx, id);
  await markTimelineDeleted(trx, timeline_id);
  return createCall(trx, project_id, [
    { action: 'delete_timeline', branch_id: source_branch_id, timeline_id, arguments: { snapshot_id: id } },
  ]);
}
