import { CoppiceError } from '../../domain/errors.ts';
import type { ProjectId, TimelineId } from '../../domain/ids.ts';
import { ArchiveError } from '../../drivers/archive/contract.ts';
import type { VolumeRef } from '../../drivers/storage/contract.ts';
import { observeTimelineStored } from '../../store/archived-timelines.ts';
import { findPlacedReplicas, findProject, observeTimelineSize } from '../../store/observations.ts';
import type { EngineContext } from '../context.ts';
import { discardTimeline } from '../first-start.ts';
import { interruptSnapshots } from '../history/snapshot-work.ts';
import { takeInLog } from '../history/take-in.ts';
import { thinTimeline } from '../history/thinning.ts';
import { removeCompute } from '../server.ts';
import { stopPoint } from '../stop-point.ts';
import { putTimeline } from './stored-timeline.ts';
import { requireObjects } from './storing.ts';

/**
 * Everything of a timeline that nobody uses is in object storage, too, when this returns; here it is as it was. Throws
 * `history_damaged` where its log cannot be read. Belongs in `storingAlone`.
 */
export async function putAway(
  ctx: EngineContext,
  timeline: {
    readonly id: TimelineId;
    readonly volume: VolumeRef;
    readonly project_id: ProjectId;
    readonly signal: AbortSignal;
  },
): Promise<void> {
  const { id, volume, project_id, signal } = timeline;
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
}

/** Nothing of a timeline that is in object storage is left on this machine, nor of the copies that its replicas have. */
export async function discardLocal(ctx: EngineContext, id: TimelineId): Promise<void> {
  for (const replica of await findPlacedReplicas(ctx.store, id)) await removeCompute(ctx, replica, 'staged');
  await discardTimeline(ctx, id);
  stopPoint('timeline_archive:discarded');
  await ctx.archive.ensureDeleted(id);
}
