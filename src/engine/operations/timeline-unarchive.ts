import { observeTimelineUnarchived } from '../../store/archived-timelines.ts';
import { findProject, findTimeline } from '../../store/observations.ts';
import { bringHere } from '../objects/bring-here.ts';
import type { RunOperation } from '../run-call.ts';

/** Brings an archived branch back, whole. */
export const timelineUnarchive: RunOperation = async (ctx, operation, signal) => {
  const id = operation.timeline_id!;
  const timeline = await findTimeline(ctx.store, id);
  const project = await findProject(ctx.store, operation.project_id);
  if (!timeline?.archived_at || !project || project.deleted_at) return 'skipped';
  await bringHere(ctx, {
    ...{ id, project, signal },
    observe: (volume) => observeTimelineUnarchived(ctx.intent, id, volume),
  });
  return 'finished';
};
