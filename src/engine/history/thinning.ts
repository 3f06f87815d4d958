import type { ProjectId, TimelineId } from '../../domain/ids.ts';
import { spareSnapshots } from '../../domain/snapshot-thinning.ts';
import { findReadySnapshots, findTimelinesWithSnapshots } from '../../store/timeline-snapshots.ts';
import type { EngineContext } from '../context.ts';
import { removeSnapshot } from './snapshots.ts';

/** Removes the snapshots of a timeline that its window does not need, and those that stand too close for their age. */
export async function thinTimeline(
  ctx: EngineContext,
  { id, retention_seconds }: { readonly id: TimelineId; readonly retention_seconds: number },
): Promise<void> {
  const snapshots = await findReadySnapshots(ctx.store, id);
  const spare = spareSnapshots(snapshots, { now: new Date(), retention_seconds });
  for (const snapshot of spare) await removeSnapshot(ctx, snapshot.id);
}

/** The same for all timelines of a project, whose window is another one now. */
export async function thinProject(ctx: EngineContext, project_id: ProjectId): Promise<void> {
  for (const timeline of await findTimelinesWithSnapshots(ctx.store, { project_id })) await thinTimeline(ctx, timeline);
}
