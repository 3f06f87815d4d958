import type { ComputeRef } from '../../drivers/compute/contract.ts';
import type { VolumeRef } from '../../drivers/storage/contract.ts';
import { CLONE_OF_RUNNING, CLONE_OF_STOPPED, completeClone, startBackup } from '../../postgres/backup.ts';
import { readControlFile } from '../../postgres/control-file.ts';
import { cleanChildFiles } from '../../postgres/first-start.ts';
import {
  findPlacedEndpoints,
  findProject,
  findTimeline,
  observeBranchPoint,
  observeTimelineReady,
} from '../../store/observations.ts';
import type { ProjectRow, TimelineRow } from '../../store/schema.ts';
import { volumeOwner } from '../compute-spec.ts';
import type { EngineContext } from '../context.ts';
import { discardTimeline, prepareFirstStart } from '../first-start.ts';
import { Revert } from '../revert.ts';
import type { RunOperation } from '../run-call.ts';
import { sessions } from '../sessions.ts';
import { stopPoint } from '../stop-point.ts';

/** The point of the parent that a child begins at. */
interface BranchPoint {
  readonly lsn: string;
  readonly timestamp: Date;
}

interface Child {
  readonly timeline: TimelineRow;
  readonly project: ProjectRow;
  readonly source: VolumeRef;
  readonly signal: AbortSignal;
}

/**
 * Gives a branch its volume: a copy-on-write copy of its parent's, at the parent's head. A running parent goes on
 * writing meanwhile; a sleeping one cannot start, since starts wait for this operation.
 */
export const createBranch: RunOperation = async (ctx, operation, signal) => {
  const timeline = await findTimeline(ctx.store, operation.timeline_id!);
  const source = await findTimeline(ctx.store, operation.source_timeline_id!);
  const project = await findProject(ctx.store, operation.project_id);
  if (!timeline || !source?.volume || !project || timeline.deleted_at || timeline.ready_at) return 'skipped';
  // A copy that an earlier attempt finished is not known to be prepared; making it again costs little.
  await discardTimeline(ctx, timeline.id);
  const child: Child = { timeline, project, source: source.volume, signal };
  await using revert = new Revert((error) =>
    ctx.logger.error({ timeline_id: timeline.id, err: error }, 'could not undo a branch'),
  );
  revert.add(() => discardTimeline(ctx, timeline.id));

  const parent = await findRunningServer(ctx, source.id);
  const point = parent ? await cloneRunning(ctx, child, parent) : await cloneStopped(ctx, child);
  stopPoint('create_branch:cloned');
  const volume = (await ctx.storage.find(timeline.id))!;
  await prepareFirstStart(ctx, { timeline, uid: project.uid, volume, signal });
  stopPoint('create_branch:prepared');
  await observeBranchPoint(ctx.store, operation.branch_id!, point);
  const system_identifier = source.system_identifier ?? '';
  // Durable, unlike other observations: a volume that is not known to be ready is made anew, whatever it holds by then.
  await observeTimelineReady(ctx.intent, timeline.id, { volume, system_identifier });
  revert.disarm();
  return 'finished';
};

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

async function cloneRunning(ctx: EngineContext, child: Child, parent: ComputeRef): Promise<BranchPoint> {
  const backup = await startBackup(sessions(ctx, parent, child.signal));
  try {
    let point: BranchPoint | undefined;
    await ctx.storage.ensureCloned(child.source, child.timeline.id, {
      ...CLONE_OF_RUNNING,
      owner: volumeOwner(ctx, child.project),
      signal: child.signal,
      prepare: async (path) => {
        stopPoint('create_branch:copied');
        const end = await backup.finish();
        await completeClone(ctx.storage.path(child.source), path, end);
        await cleanChildFiles(path);
        point = { lsn: end.stop_lsn, timestamp: end.stopped_at };
      },
    });
    return point!;
  } finally {
    await backup.abandon();
  }
}

async function cloneStopped(ctx: EngineContext, child: Child): Promise<BranchPoint> {
  const timestamp = new Date();
  const { checkpointLsn } = await readControlFile(ctx.storage.path(child.source));
  await ctx.storage.ensureCloned(child.source, child.timeline.id, {
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
