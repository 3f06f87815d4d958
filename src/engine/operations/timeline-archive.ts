import { mayBeArchived, observeTimelineArchived } from '../../store/archived-timelines.ts';
import { findTimeline } from '../../store/observations.ts';
import { discardLocal, putAway } from '../objects/put-away.ts';
import { storingAlone, toldOfObjects } from '../objects/storing.ts';
import type { RunOperation } from '../run-call.ts';
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
    toldOfObjects(async () => {
      await putAway(ctx, { id, volume, project_id: operation.project_id, signal });
      stopPoint('timeline_archive:stored');
      signal.throwIfAborted();
      return ctx.intent.transaction().execute((trx) => observeTimelineArchived(trx, id));
    }),
  );
  // It was deleted meanwhile.
  if (!stored) return 'skipped';
  stopPoint('timeline_archive:archived');
  await discardLocal(ctx, id);
  return 'finished';
};
