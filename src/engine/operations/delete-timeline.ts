import type { TimelineId } from '../../domain/ids.ts';
import {
  findPlacedEndpoints,
  findPlacedReplicas,
  findTimeline,
  observeTimelinePurged,
} from '../../store/observations.ts';
import type { EngineContext } from '../context.ts';
import { discardTimeline } from '../first-start.ts';
import { deleteArchive } from '../history/retention.ts';
import { removeStored } from '../objects/stored-timeline.ts';
import { requireObjects, storingAlone, toldOfObjects } from '../objects/storing.ts';
import type { RunOperation } from '../run-call.ts';
import { discardSchemaSource } from '../schema-source.ts';
import { removeCompute } from '../server.ts';
import { stopPoint } from '../stop-point.ts';

/** Removes a deleted branch's computes and volume. */
export const deleteTimeline: RunOperation = async (ctx, operation) => {
  for (const endpoint of await findPlacedEndpoints(ctx.store, { timeline_id: operation.timeline_id! })) {
    // One that was moved away sleeps, and is started for another branch.
    if (endpoint.deleted_at === null && endpoint.observed_state === 'stopped') continue;
    await removeCompute(ctx, endpoint, 'staged');
  }
  for (const replica of await findPlacedReplicas(ctx.store, operation.timeline_id!)) {
    await removeCompute(ctx, replica, 'immediate');
  }
  stopPoint('delete_timeline:stopped');
  await purgeTimeline(ctx, operation.timeline_id!);
  return 'finished';
};

/** Nothing of the timeline is left on disk. */
export async function purgeTimeline(ctx: EngineContext, id: TimelineId): Promise<void> {
  await discardTimeline(ctx, id);
  await discardSchemaSource(ctx, id);
  await deleteArchive(ctx, id);
  if ((await findTimeline(ctx.store, id))?.stored_at) {
    await storingAlone(ctx, id, () => toldOfObjects(() => removeStored(requireObjects(ctx), id)));
  }
  stopPoint('delete_timeline:deleted');
  await observeTimelinePurged(ctx.store, id);
}
