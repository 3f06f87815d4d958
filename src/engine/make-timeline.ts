import type { HistoryPoint } from '../domain/history.ts';
import type { ComputeRef } from '../drivers/compute/contract.ts';
import type { VolumeRef } from '../drivers/storage/contract.ts';
import { CLONE_OF_STOPPED } from '../postgres/backup.ts';
import { readControlFile } from '../postgres/control-file.ts';
import { cleanChildFiles } from '../postgres/first-start.ts';
import { layLog } from '../postgres/recovery.ts';
import type { OpenSession } from '../postgres/session.ts';
import type { ProjectRow, TimelineRow } from '../store/schema.ts';
import { type CopyOfRunning, cloneRunning } from './clone-running.ts';
import type { EngineContext } from './context.ts';
import { discardTimeline, prepareFirstStart } from './first-start.ts';
import { bringSegment } from './history/log.ts';
import { headNearSnapshot } from './history/near-head.ts';
import { useSnapshotBefore } from './history/snapshots.ts';
import { findRunningServer } from './running-server.ts';
import { stopPoint } from './stop-point.ts';
import { volumeOwner } from './volume-owner.ts';

export interface TimelineToMake {
  readonly timeline: TimelineRow;
  readonly project: ProjectRow;
  /** The timeline that it begins as a copy of. */
  readonly source: TimelineRow;
  /** Where in the source's history; undefined: at its head. */
  readonly point?: HistoryPoint;
  /** Looks into the server that replayed to the point. */
  readonly look?: (open: OpenSession) => Promise<void>;
  readonly signal: AbortSignal;
}

/**
 * Makes the volume of a timeline: a copy of its source, at its head or at a point of its history, which does not act as
 * the source. A running source goes on writing meanwhile; a sleeping one cannot start, since starts wait for whoever
 * holds the claim on it.
 */
export async function makeTimeline(
  ctx: EngineContext,
  wanted: TimelineToMake,
): Promise<{ volume: VolumeRef; point: HistoryPoint }> {
  const { timeline, source, signal } = wanted;
  if (!source.volume) throw new Error(`timeline ${source.id} has no volume`);
  const copy = await clone(ctx, wanted, { forced: false });
  try {
    return await prepare(ctx, wanted, copy);
  } catch (error) {
    signal.throwIfAborted();
    if (!copy.unforced) throw error;
    ctx.logger.warn(
      { timeline_id: timeline.id, err: error },
      'a copy without a checkpoint is thrown away and made anew',
    );
  }
  await discardTimeline(ctx, timeline.id);
  return prepare(ctx, wanted, await clone(ctx, wanted, { forced: true }));
}

async function prepare(
  ctx: EngineContext,
  { timeline, project, look, signal }: TimelineToMake,
  { point, replays }: Copy,
): Promise<{ volume: VolumeRef; point: HistoryPoint }> {
  const replay_to = replays ? point.lsn : undefined;
  stopPoint('create_branch:cloned');
  const volume = (await ctx.storage.find(timeline.id))!;
  await prepareFirstStart(ctx, { timeline, uid: project.uid, volume, replay_to, look, signal });
  stopPoint('create_branch:prepared');
  return { volume, point };
}

interface Copy {
  readonly point: HistoryPoint;
  /** It came about without a checkpoint of its running source; one with a checkpoint can take its place. */
  readonly unforced: boolean;
  /** The log up to the point was laid into it, and is still to be replayed. */
  readonly replays: boolean;
}

/** @param how.forced with a checkpoint of the source, if it runs */
async function clone(ctx: EngineContext, wanted: TimelineToMake, { forced }: { forced: boolean }): Promise<Copy> {
  const { source, point } = wanted;
  if (point) return { point: await cloneAtPoint(ctx, wanted, point), unforced: false, replays: true };
  const running = await findRunningServer(ctx, source.id);
  if (!running) return { point: await cloneStopped(ctx, wanted), unforced: false, replays: false };
  const head = forced ? undefined : await cloneAtHead(ctx, wanted, running);
  if (head) return { point: head, unforced: true, replays: true };
  return { ...(await cloneOfRunning(ctx, wanted, running, forced)), replays: false };
}

/** A copy of the head of a running source by way of its newest snapshot, where that is cheaper for the source; else, or when it fails, nothing is made. */
async function cloneAtHead(
  ctx: EngineContext,
  wanted: TimelineToMake,
  compute: ComputeRef,
): Promise<HistoryPoint | undefined> {
  const { timeline, source, signal } = wanted;
  if (ctx.branch_without_checkpoint) return undefined;
  try {
    const head = await headNearSnapshot(ctx, { id: source.id, volume: source.volume! }, compute, signal);
    return head && (await cloneAtPoint(ctx, wanted, head));
  } catch (error) {
    signal.throwIfAborted();
    ctx.logger.warn({ timeline_id: source.id, err: error }, 'a running server is copied with a checkpoint instead');
    await discardTimeline(ctx, timeline.id);
    return undefined;
  }
}

/** A copy of the nearest snapshot before the point, with the log from there to the point, which is still to be replayed. */
async function cloneAtPoint(
  ctx: EngineContext,
  { timeline, project, source, signal }: TimelineToMake,
  point: HistoryPoint,
): Promise<HistoryPoint> {
  const wanted = { timeline_id: source.id, lsn: point.lsn };
  const volume = await useSnapshotBefore(ctx, wanted, async (snapshot) => {
    const copy = await ctx.storage.ensureCloned(snapshot.volume, timeline.id, {
      ...CLONE_OF_STOPPED,
      owner: volumeOwner(ctx, project),
      signal,
      prepare: async (path) => {
        stopPoint('create_branch:copied');
        await cleanChildFiles(path);
      },
    });
    // Into the finished copy, so that hundreds of segments are not made durable that are gone after the replay.
    await layLog(ctx.storage.path(copy), point.lsn, (name, directory) => bringSegment(ctx, source, name, directory));
    return copy;
  });
  if (!volume) throw new Error(`timeline ${source.id} has no snapshot before ${point.lsn}`);
  return point;
}

function cloneOfRunning(
  ctx: EngineContext,
  child: TimelineToMake,
  compute: ComputeRef,
  forced: boolean,
): Promise<CopyOfRunning> {
  const { timeline, project, source, signal } = child;
  return cloneRunning(ctx, {
    source: { id: source.id, volume: source.volume! },
    ...{ compute, id: timeline.id, owner: volumeOwner(ctx, project), signal, forced },
    prepare: async (path) => {
      stopPoint('create_branch:copied');
      await cleanChildFiles(path);
    },
  });
}

async function cloneStopped(ctx: EngineContext, child: TimelineToMake): Promise<HistoryPoint> {
  const source = child.source.volume!;
  const timestamp = new Date();
  const { checkpointLsn } = await readControlFile(ctx.storage.path(source));
  await ctx.storage.ensureCloned(source, child.timeline.id, {
    ...CLONE_OF_STOPPED,
    owner: volumeOwner(ctx, child.project),
    signal: child.signal,
    prepare: async (path) => {
      stopPoint('create_branch:copied');
      await cleanChildFiles(path);
    },
  });
  return { lsn: checkpointLsn, timestamp };
}
