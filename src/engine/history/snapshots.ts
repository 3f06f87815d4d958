import { randomUUID } from 'node:crypto';
import type { HistoryPoint } from '../../domain/history.ts';
import type { TimelineId } from '../../domain/ids.ts';
import type { Lsn } from '../../domain/lsn.ts';
import type { VolumeOwner, VolumeRef } from '../../drivers/storage/contract.ts';
import { CLONE_OF_STOPPED } from '../../postgres/backup.ts';
import { type RecoveryStart, recoveryStart } from '../../postgres/recovery.ts';
import type { Store } from '../../store/connection.ts';
import {
  findReadySnapshots,
  findSnapshotBefore,
  findUnpurgedSnapshots,
  findUnsettledSnapshots,
  insertSnapshot,
  markSnapshotDeleted,
  observeSnapshotPurged,
  observeSnapshotTaken,
  type ReadySnapshot,
} from '../../store/timeline-snapshots.ts';
import type { EngineContext } from '../context.ts';
import { forEach } from '../each.ts';
import { Revert } from '../revert.ts';
import { stopPoint } from '../stop-point.ts';
import { interruptSnapshots, isUnfinished, whileHeld, whileRemoving, whileUnfinished } from './snapshot-work.ts';

/** No server runs on a snapshot, and no tenant can reach it. */
export const snapshotOwner = (): VolumeOwner | undefined => (process.getuid?.() === 0 ? { uid: 0, gid: 0 } : undefined);

interface SnapshotToTake {
  readonly timeline_id: TimelineId;
  readonly kind: 'birth' | 'suspend' | 'running';
  /** Where what is seen is written. */
  readonly store: Store;
  /** Makes the volume of that id, and tells where in the timeline's history it stands. */
  readonly copy: (id: string) => Promise<{ volume: VolumeRef; point: HistoryPoint }>;
}

/** Makes a snapshot. False when its timeline is deleted; nothing is left when it throws. */
export async function takeSnapshot(
  ctx: EngineContext,
  { timeline_id, kind, store, copy }: SnapshotToTake,
): Promise<boolean> {
  const id = randomUUID();
  return whileUnfinished(ctx, id, async () => {
    // Durable before the volume is: a volume without a row would never be found.
    if (!(await insertSnapshot(ctx.intent, { id, timeline_id, kind }))) return false;
    await using revert = new Revert((error) =>
      ctx.logger.error({ timeline_id, subject: id, err: error }, 'could not undo a snapshot'),
    );
    revert.add(() => removeSnapshot(ctx, id));
    stopPoint('snapshot:written');
    const { volume, point } = await copy(id);
    stopPoint('snapshot:copied');
    if (!(await observeSnapshotTaken(store, id, { volume, lsn: point.lsn, taken_at: point.timestamp }))) return false;
    stopPoint('snapshot:taken');
    revert.disarm();
    return true;
  });
}

/** A frozen copy of a volume that nobody writes to. */
export function copyStopped(
  ctx: EngineContext,
  source: VolumeRef,
  id: string,
  signal: AbortSignal,
): Promise<VolumeRef> {
  return ctx.storage.ensureCloned(source, id, { ...CLONE_OF_STOPPED, owner: snapshotOwner(), signal });
}

/** Nothing is left of a snapshot, unless somebody copies from it at this moment: then it goes another time. */
export async function removeSnapshot(ctx: EngineContext, id: string): Promise<void> {
  await whileRemoving(ctx, id, async () => {
    await markSnapshotDeleted(ctx.store, id);
    stopPoint('snapshot:marked');
    await ctx.storage.ensureDeleted(id);
    stopPoint('snapshot:deleted');
    await observeSnapshotPurged(ctx.store, id);
  });
}

/** Nothing is left of the snapshots of a timeline that nobody uses any more. */
export async function discardSnapshots(ctx: EngineContext, timelineId: TimelineId): Promise<void> {
  await interruptSnapshots(ctx, timelineId);
  for (const { id } of await findUnpurgedSnapshots(ctx.store, timelineId)) await removeSnapshot(ctx, id);
}

/** Removes what an interrupted process left of snapshots that it was making or removing. */
export async function removeUnsettledSnapshots(ctx: EngineContext): Promise<void> {
  const left = (await findUnsettledSnapshots(ctx.store)).filter(({ id }) => !isUnfinished(ctx, id));
  await forEach(ctx, 'snapshots', left, ({ id }) => removeSnapshot(ctx, id));
}

/**
 * Lends the newest snapshot of a timeline that holds nothing from `lsn` on; it is not removed meanwhile.
 * @returns undefined when there is none
 */
export async function useSnapshotBefore<T>(
  ctx: EngineContext,
  { timeline_id, lsn }: { readonly timeline_id: TimelineId; readonly lsn: Lsn },
  use: (snapshot: ReadySnapshot) => Promise<T>,
): Promise<T | undefined> {
  const again = Symbol();
  for (;;) {
    const found = await findSnapshotBefore(ctx.store, timeline_id, lsn);
    if (!found) return undefined;
    const used = await whileHeld(ctx, found.id, {
      work: async () => {
        // Its removal may have begun, and even ended, since it was found.
        const held = await findSnapshotBefore(ctx.store, timeline_id, lsn);
        return held?.id === found.id ? await use(held) : again;
      },
      refused: () => again,
    });
    if (used !== again) return used as T;
  }
}

/**
 * Where the replay of a timeline's oldest snapshot starts: nothing of its log before is needed for a point that can be
 * asked for. Undefined while it has no snapshot: what the first one will need is not known yet.
 */
export async function oldestNeeded(ctx: EngineContext, timelineId: TimelineId): Promise<RecoveryStart | undefined> {
  const [oldest] = await findReadySnapshots(ctx.store, timelineId);
  return oldest && recoveryStart(ctx.storage.path(oldest.volume));
}
