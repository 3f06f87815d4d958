import type { HistoryPoint } from '../domain/history.ts';
import { type Lsn, parseLsn } from '../domain/lsn.ts';
import type { ComputeRef } from '../drivers/compute/contract.ts';
import type { VolumeRef } from '../drivers/storage/contract.ts';
import { CLONE_OF_STOPPED } from '../postgres/backup.ts';
import { readControlFile } from '../postgres/control-file.ts';
import { cleanChildFiles } from '../postgres/first-start.ts';
import { layLog, recoveryStart } from '../postgres/recovery.ts';
import type { OpenSession } from '../postgres/session.ts';
import type { EndpointFacts } from '../store/observations.ts';
import type { ProjectRow, TimelineRow } from '../store/schema.ts';
import { type CopyOfRunning, cloneRunning } from './clone-running.ts';
import type { EngineContext } from './context.ts';
import { discardTimeline, prepareFirstStart, startAsEndpoint } from './first-start.ts';
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
  /** What starts on the timeline as soon as it is made: where that can replay the log, it is started here, and goes on. */
  readonly next?: EndpointFacts;
  /** Looks into the server that replayed to the point. */
  readonly look?: (open: OpenSession) => Promise<void>;
  readonly signal: AbortSignal;
}

/**
 * Makes the volume of a timeline: a copy of its source, at its head or at a point of its history, which does not act as
 * the source. A running source goes on writing meanwhile; a sleeping one cannot start, since starts wait for whoever
 * holds the claim on it.
 */
export async function makeTimeline(ctx: EngineContext, wanted: TimelineToMake): Promise<MadeTimeline> {
  const { timeline, source, signal } = wanted;
  if (!source.volume) throw new Error(`timeline ${source.id} has no volume`);
  const copy = await clone(ctx, wanted, { forced: false });
  const next = copy.replays && (await isWorthServing(ctx, timeline, copy.point.lsn)) ? wanted.next : undefined;
  try {
    return await prepare(ctx, { ...wanted, next }, copy);
  } catch (error) {
    signal.throwIfAborted();
    if (!copy.unforced && !next) throw error;
    const what = copy.unforced ? 'a copy without a checkpoint' : 'a copy that its endpoint was to replay';
    ctx.logger.warn({ timeline_id: timeline.id, err: error }, `${what} is thrown away and made anew`);
  }
  await discardTimeline(ctx, timeline.id);
  const safest = { ...wanted, next: undefined };
  return prepare(ctx, safest, await clone(ctx, safest, { forced: true }));
}

export interface MadeTimeline {
  readonly volume: VolumeRef;
  /** Where it parts from its source. */
  readonly point: HistoryPoint;
  /** The server of the endpoint that comes next runs on it; else it was stopped cleanly. */
  readonly running: boolean;
}

/**
 * What is replayed is written out before a server that only prepares ends, and the finished volume is kept as the floor
 * of its history. That is quick where there is little of it.
 */
async function isWorthServing(ctx: EngineContext, { id }: TimelineRow, replay_to: Lsn): Promise<boolean> {
  const { redo_lsn } = await recoveryStart(ctx.storage.path((await ctx.storage.find(id))!));
  return parseLsn(replay_to) - parseLsn(redo_lsn) > ctx.serve_replay_bytes;
}

async function prepare(
  ctx: EngineContext,
  { timeline, project, next, look, signal }: TimelineToMake,
  { point, replays }: Copy,
): Promise<MadeTimeline> {
  const replay_to = replays ? point.lsn : undefined;
  stopPoint('create_branch:cloned');
  const volume = (await ctx.storage.find(timeline.id))!;
  if (next && replay_to) {
    const child = { timeline, volume, next: { endpoint: next, replay_to }, look, signal };
    if (await startAsEndpoint(ctx, child)) return { volume, point, running: true };
  }
  await prepareFirstStart(ctx, { timeline, uid: project.uid, volume, replay_to, look, signal });
  stopPoint('create_branch:prepared');
  return { volume, point, running: false };
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
