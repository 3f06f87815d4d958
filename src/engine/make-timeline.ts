import type { HistoryPoint } from '../domain/history.ts';
import type { ComputeRef } from '../drivers/compute/contract.ts';
import type { VolumeRef } from '../drivers/storage/contract.ts';
import { CLONE_OF_RUNNING, CLONE_OF_STOPPED, completeClone, startBackup } from '../postgres/backup.ts';
import { readControlFile } from '../postgres/control-file.ts';
import { cleanChildFiles } from '../postgres/first-start.ts';
import { layLog } from '../postgres/recovery.ts';
import { findPlacedEndpoints } from '../store/observations.ts';
import type { ProjectRow, TimelineRow } from '../store/schema.ts';
import { findSnapshotBefore } from '../store/timeline-snapshots.ts';
import { volumeOwner } from './compute-spec.ts';
import type { EngineContext } from './context.ts';
import { prepareFirstStart } from './first-start.ts';
import { sessions } from './sessions.ts';
import { stopPoint } from './stop-point.ts';
import { bringSegment } from './wal-of-timeline.ts';

export interface TimelineToMake {
  readonly timeline: TimelineRow;
  readonly project: ProjectRow;
  /** The timeline that it begins as a copy of. */
  readonly source: TimelineRow;
  /** Where in the source's history; undefined: at its head. */
  readonly point?: HistoryPoint;
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
  const { timeline, project, source, signal } = wanted;
  if (!source.volume) throw new Error(`timeline ${source.id} has no volume`);
  const point = await clone(ctx, wanted);
  stopPoint('create_branch:cloned');
  const volume = (await ctx.storage.find(timeline.id))!;
  await prepareFirstStart(ctx, { timeline, uid: project.uid, volume, replay_to: wanted.point?.lsn, signal });
  stopPoint('create_branch:prepared');
  return { volume, point };
}

async function clone(ctx: EngineContext, wanted: TimelineToMake): Promise<HistoryPoint> {
  if (wanted.point) return cloneAtPoint(ctx, wanted, wanted.point);
  const running = await findRunningServer(ctx, wanted.source.id);
  return running ? cloneRunning(ctx, wanted, running) : cloneStopped(ctx, wanted);
}

/** A copy of the nearest snapshot before the point, with the log from there to the point, which is still to be replayed. */
async function cloneAtPoint(
  ctx: EngineContext,
  { timeline, project, source, signal }: TimelineToMake,
  point: HistoryPoint,
): Promise<HistoryPoint> {
  const snapshot = await findSnapshotBefore(ctx.store, source.id, point.lsn);
  if (!snapshot) throw new Error(`timeline ${source.id} has no snapshot before ${point.lsn}`);
  await ctx.storage.ensureCloned(snapshot.volume, timeline.id, {
    ...CLONE_OF_STOPPED,
    owner: volumeOwner(ctx, project),
    signal,
    prepare: async (path) => {
      stopPoint('create_branch:copied');
      await cleanChildFiles(path);
      await layLog(path, point.lsn, (name, directory) => bringSegment(ctx, source, name, directory));
    },
  });
  return point;
}

/** The server to copy from while it runs; undefined when nothing writes to the timeline any more. */
async function findRunningServer(ctx: EngineContext, timelineId: string): Promise<ComputeRef | undefined> {
  for (const { compute } of await findPlacedEndpoints(ctx.store, { timeline_id: timelineId })) {
    if (!compute) continue;
    const { state, crashed } = await ctx.compute.observe(compute);
    if (state === 'running') return compute;
    // Children that were busy when their server was killed work on, and write.
    if (crashed) await ctx.compute.ensureStopped(compute, 'immediate');
  }
  return undefined;
}

async function cloneRunning(ctx: EngineContext, child: TimelineToMake, parent: ComputeRef): Promise<HistoryPoint> {
  const source = child.source.volume!;
  const backup = await startBackup(sessions(ctx, parent, child.signal));
  try {
    let point: HistoryPoint | undefined;
    await ctx.storage.ensureCloned(source, child.timeline.id, {
      ...CLONE_OF_RUNNING,
      owner: volumeOwner(ctx, child.project),
      signal: child.signal,
      prepare: async (path) => {
        stopPoint('create_branch:copied');
        const end = await backup.finish();
        await completeClone(ctx.storage.path(source), path, end);
        await cleanChildFiles(path);
        point = { lsn: end.stop_lsn, timestamp: end.stopped_at };
      },
    });
    return point!;
  } finally {
    await backup.abandon();
  }
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
