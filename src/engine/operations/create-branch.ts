import { findProject, findTimeline, observeBranchPoint, observeTimelineReady } from '../../store/observations.ts';
import { discardTimeline } from '../first-start.ts';
import { makeTimeline } from '../make-timeline.ts';
import { Revert } from '../revert.ts';
import type { RunOperation } from '../run-call.ts';

/** Gives a branch its volume: a copy-on-write copy of its parent's. */
export const createBranch: RunOperation = async (ctx, operation, signal) => {
  const timeline = await findTimeline(ctx.store, operation.timeline_id!);
  const source = await findTimeline(ctx.store, operation.source_timeline_id!);
  const project = await findProject(ctx.store, operation.project_id);
  if (!timeline || !source?.volume || !project || timeline.deleted_at || timeline.ready_at) return 'skipped';
  // A copy that an earlier attempt finished is not known to be prepared; making it again costs little.
  await discardTimeline(ctx, timeline.id);
  await using revert = new Revert((error) =>
    ctx.logger.error({ timeline_id: timeline.id, err: error }, 'could not undo a branch'),
  );
  revert.add(() => discardTimeline(ctx, timeline.id));
  const { volume, point } = await makeTimeline(ctx, { timeline, project, source, signal });
  await observeBranchPoint(ctx.store, operation.branch_id!, point);
  const system_identifier = source.system_identifier ?? '';
  // Durable, unlike other observations: a volume that is not known to be ready is made anew, whatever it holds by then.
  await observeTimelineReady(ctx.intent, timeline.id, { volume, system_identifier });
  revert.disarm();
  return 'finished';
};
