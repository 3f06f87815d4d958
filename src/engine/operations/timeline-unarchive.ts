import { CoppiceError } from '../../domain/errors.ts';
import type { TimelineId } from '../../domain/ids.ts';
import { ObjectError, type ObjectStore } from '../../drivers/objects/contract.ts';
import { observeTimelineUnarchived } from '../../store/archived-timelines.ts';
import { findDamages, noteDamage, resolveDamage } from '../../store/history-damages.ts';
import { findProject, findTimeline } from '../../store/observations.ts';
import type { ProjectRow } from '../../store/schema.ts';
import type { EngineContext } from '../context.ts';
import { discardTimeline } from '../first-start.ts';
import { thinTimeline } from '../history/thinning.ts';
import { bytesOfStored, fetchTimeline } from '../objects/stored-timeline.ts';
import { requireObjects, toldOfObjects } from '../objects/storing.ts';
import type { RunOperation } from '../run-call.ts';
import { stopPoint } from '../stop-point.ts';
import { volumeOwner } from '../volume-owner.ts';

/**
 * Brings an archived branch back, whole: nobody sees any of it before. What is stored of it is removed later, by a chore.
 * The history that the window has left behind meanwhile goes now.
 */
export const timelineUnarchive: RunOperation = async (ctx, operation, signal) => {
  const id = operation.timeline_id!;
  const timeline = await findTimeline(ctx.store, id);
  const project = await findProject(ctx.store, operation.project_id);
  if (!timeline?.archived_at || !project || project.deleted_at) return 'skipped';
  const objects = requireObjects(ctx);
  await toldOfObjects(() => noted(ctx, id, () => bringBack(ctx, objects, { id, project, signal })));
  stopPoint('timeline_unarchive:here');
  for (const damage of await findDamages(ctx.store, id)) {
    if (damage.kind === 'damaged_object') await resolveDamage(ctx.store, damage.id);
  }
  const retention_seconds = project.applied_history_retention_seconds ?? project.history_retention_seconds;
  await thinTimeline(ctx, { id, retention_seconds });
  return 'finished';
};

async function bringBack(
  ctx: EngineContext,
  objects: ObjectStore,
  { id, project, signal }: { id: TimelineId; project: ProjectRow; signal: AbortSignal },
): Promise<void> {
  const { free_bytes, reserve_bytes } = await ctx.storage.pool();
  const needed_bytes = await bytesOfStored(objects, id, signal);
  if (free_bytes - needed_bytes < reserve_bytes) {
    throw new CoppiceError('storage_full', {
      noun: `${needed_bytes} bytes from the archive`,
      free_bytes,
      reserve_bytes,
    });
  }
  // What an archiving has yet to remove, or another attempt has brought.
  await discardTimeline(ctx, id);
  await ctx.archive.ensureDeleted(id);
  const volume = await fetchTimeline(ctx, objects, { id, owner: volumeOwner(ctx, project), signal });
  signal.throwIfAborted();
  await observeTimelineUnarchived(ctx.intent, id, volume);
}

/** What is missing or damaged in object storage is written down for whoever looks after this Coppice. */
async function noted(ctx: EngineContext, timeline_id: TimelineId, work: () => Promise<void>): Promise<void> {
  try {
    await work();
  } catch (error) {
    if (error instanceof ObjectError && (error.kind === 'missing' || error.kind === 'damaged')) {
      const detail = `the branch cannot be brought back from the archive: ${error.message}`;
      await noteDamage(ctx.store, { timeline_id, kind: 'damaged_object', object: error.key ?? '', detail });
    }
    throw error;
  }
}
