import { CoppiceError } from '../../domain/errors.ts';
import type { TimelineId } from '../../domain/ids.ts';
import { ArchiveError } from '../../drivers/archive/contract.ts';
import type { VolumeRef } from '../../drivers/storage/contract.ts';
import { mayBeArchived, observeTimelineArchived, observeTimelineStored } from '../../store/archived-timelines.ts';
import { findPlacedReplicas, findProject, findTimeline, observeTimelineSize } from '../../store/observations.ts';
import type { EngineContext } from '../context.ts';
import { discardTimeline } from '../first-start.ts';
import { interruptSnapshots } from '../history/snapshot-work.ts';
import { takeInLog } from '../history/take-in.ts';
import { thinTimeline } from '../history/thinning.ts';
import { putTimeline } from '../objects/stored-timeline.ts';
import { requireObjects, storingAlone, toldOfObjects } from '../objects/storing.ts';
import type { RunOperation } from '../run-call.ts';
import { removeCompute } from '../server.ts';
import { stopPoint } from '../stop-point.ts';

/**
 * Moves a branch that nobody needs to object storage, whole. Until the store says that it is there, nothing on this machine
 * is touched; from then on nothing on this machine counts.
 */
export const timelineArchive: RunOperation = async (ctx, operation, signal) => {
  const id = operation.timeline_id!;
  const timeline = await findTimeline(ctx.store, id);
  if (!timeline || timeline.deleted_at) return 'skipped';
  if (timeline.archived_at) {
    await discardLocal(ctx, id);
    return 'finished';
  }
  if (!timeline.volume || !(await mayBeArchived(ctx.store, id))) return 'skipped';
  const { volume } = timeline;
  const stored = await storingAlone(ctx, id, () =>
    toldOfObjects(() => store(ctx, { id, volume, project_id: operation.project_id, signal })),
  );
  if (!stored) return 'skipped';
  stopPoint('timeline_archive:archived');
  await discardLocal(ctx, id);
  return 'finished';
};

/** False when it was deleted meanwhile. */
async function store(
  ctx: EngineContext,
  { id, volume, project_id, signal }: { id: TimelineId; volume: VolumeRef; project_id: string; signal: AbortSignal },
): Promise<boolean> {
  const objects = requireObjects(ctx);
  // Durable before anything is sent: whoever deletes the timeline must know that there may be something.
  await observeTimelineStored(ctx.intent, id);
  await interruptSnapshots(ctx, id);
  if ((await ctx.archive.timelines()).includes(id)) await takeInLog(ctx, id);
  const project = await findProject(ctx.store, project_id);
  const retention_seconds = project?.applied_history_retention_seconds ?? project?.history_retention_seconds ?? 0;
  await thinTimeline(ctx, { id, retention_seconds });
  await observeTimelineSize(ctx.store, id, await ctx.storage.measure(volume));
  await putTimeline(ctx, objects, { id, volume, signal }).catch((cause) => {
    if (!(cause instanceof ArchiveError)) throw cause;
    throw new CoppiceError('history_damaged', { reason: cause.message }, { cause });
  });
  stopPoint('timeline_archive:stored');
  signal.throwIfAborted();
  return ctx.intent.transaction().execute((trx) => observeTimelineArchived(trx, id));
}

/** Nothing of an archived timeline is left on this machine, nor of the copies that its replicas have. */
async function discardLocal(ctx: EngineContext, id: TimelineId): Promise<void> {
  for (const replica of await findPlacedReplicas(ctx.store, id)) await removeCompute(ctx, replica, 'staged');
  await discardTimeline(ctx, id);
  stopPoint('timeline_archive:discarded');
  await ctx.archive.ensureDeleted(id);
}
