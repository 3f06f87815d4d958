import type { TimelineId } from '../../domain/ids.ts';
import type { ComputeRef } from '../../drivers/compute/contract.ts';
import { isBackupUnderWay } from '../../store/backup-requests.ts';
import {
  findRunningSnapshotNeeds,
  findTimelinesWithSnapshots,
  type SnapshotNeed,
} from '../../store/timeline-snapshots.ts';
import { cloneRunning } from '../clone-running.ts';
import type { EngineContext } from '../context.ts';
import { forEach } from '../each.ts';
import { takeAlone } from '../history/snapshot-work.ts';
import { snapshotOwner, takeSnapshot } from '../history/snapshots.ts';
import { thinTimeline } from '../history/thinning.ts';
import { bytesSince, wroteSince } from '../history/written-since.ts';

/** So many are made at once: each is a checkpoint and a copy. */
const SLOTS = 2;
const TAKE_TIMEOUT_MS = 900_000;
/** A timeline that failed, or had nothing to keep, is left alone for a while. */
const FAILED_PAUSE_MS = 60_000;
const IDLE_PAUSE_MAX_MS = 30_000;
const FIRST_PAUSE_MAX_MS = 10_000;
/** After each it rests so many times as long as it took: where copies have become slow, fewer are made. */
const REST_PER_WORK = 4;
const FIRST_ID = '00000000-0000-0000-0000-000000000000';

type RunningNeed = SnapshotNeed & { readonly compute: ComputeRef; readonly started_at: Date };

/**
 * Takes snapshots of running servers that have written much since the last one, or anything for long, so that replay to
 * any point stays short. Returns one round of it, which does not wait for what it begins and tells whether any server
 * runs; call it again and again, until `stopping` is aborted.
 */
export function snapshotRunning(ctx: EngineContext, stopping: AbortSignal): () => Promise<boolean> {
  const underWay = new Set<TimelineId>();
  const pausedUntil = new Map<TimelineId, number>();
  const isFree = ({ id }: RunningNeed) => !underWay.has(id) && !((pausedUntil.get(id) ?? 0) > Date.now());

  const take = async (need: RunningNeed) => {
    underWay.add(need.id);
    const began = performance.now();
    try {
      const signal = AbortSignal.any([stopping, AbortSignal.timeout(TAKE_TIMEOUT_MS)]);
      await takeAlone(ctx, need.id, signal, (either) => takeRunning(ctx, need, either));
      pausedUntil.set(need.id, Date.now() + REST_PER_WORK * (performance.now() - began));
    } catch (error) {
      pausedUntil.set(need.id, Date.now() + FAILED_PAUSE_MS);
      ctx.logger.warn({ timeline_id: need.id, err: error }, 'a snapshot could not be made and will be tried again');
    } finally {
      underWay.delete(need.id);
    }
  };
  return async () => {
    const needs = await findRunningSnapshotNeeds(ctx.store);
    const ids = new Set(needs.map(({ id }) => id));
    for (const id of pausedUntil.keys()) if (!ids.has(id)) pausedUntil.delete(id);
    const { free_bytes, reserve_bytes } = await ctx.storage.pool();
    if (free_bytes < reserve_bytes) return needs.length > 0;
    await forEach(ctx, 'snapshots', needs.filter(isFree), async (need) => {
      if (underWay.size >= SLOTS || stopping.aborted) return;
      const due = await isDue(ctx, need);
      if (due === 'nothing written') pausedUntil.set(need.id, Date.now() + idlePauseMs(ctx));
      if (due === true) void take(need);
    });
    return needs.length > 0;
  };
}

const idlePauseMs = ({ snapshots }: EngineContext): number => Math.min(IDLE_PAUSE_MAX_MS, snapshots.interval_ms / 4);

/** A server that has just started has somebody waiting for it, and its history can begin a little later. */
const firstPauseMs = ({ snapshots }: EngineContext): number => Math.min(FIRST_PAUSE_MAX_MS, snapshots.interval_ms / 30);

async function isDue(ctx: EngineContext, need: RunningNeed): Promise<boolean | 'nothing written'> {
  if (!need.lsn || !need.taken_at) return Date.now() - need.started_at.getTime() >= firstPauseMs(ctx);
  const { wal_bytes, interval_ms } = ctx.snapshots;
  if ((await bytesSince(ctx, need.volume, need.lsn)) >= wal_bytes) return true;
  // A copy that costs its whole size is not made for the sake of time alone.
  if (!ctx.storage.capabilities.instant_clone) return false;
  const since_ms = Math.max(need.taken_at.getTime(), need.started_at.getTime());
  if (Date.now() - since_ms < interval_ms) return false;
  return (await wroteSince(ctx, need, need.lsn)) || 'nothing written';
}

async function takeRunning(ctx: EngineContext, need: RunningNeed, signal: AbortSignal): Promise<void> {
  await takeSnapshot(ctx, {
    timeline_id: need.id,
    kind: 'running',
    store: ctx.store,
    copy: (id) => cloneRunning(ctx, { source: need, compute: need.compute, id, owner: snapshotOwner(), signal }),
  });
  // A server that writes much makes many.
  if (!(await isBackupUnderWay(ctx.store))) await thinTimeline(ctx, need);
}

/**
 * Removes snapshots that the windows of their projects have left behind, and those that stand too close for their age; none
 * while a backup is made, which may be reading them.
 */
export async function thinSnapshots(ctx: EngineContext): Promise<void> {
  if (await isBackupUnderWay(ctx.store)) return;
  let timelines = await findTimelinesWithSnapshots(ctx.store, { after: FIRST_ID });
  while (timelines.length > 0) {
    await forEach(ctx, 'thinning', timelines, (timeline) => thinTimeline(ctx, timeline));
    timelines = await findTimelinesWithSnapshots(ctx.store, { after: timelines.at(-1)!.id });
  }
}
