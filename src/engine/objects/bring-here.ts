import { CoppiceError } from '../../domain/errors.ts';
import type { TimelineId } from '../../domain/ids.ts';
import { ObjectError } from '../../drivers/objects/contract.ts';
import type { VolumeRef } from '../../drivers/storage/contract.ts';
import { findDamages, noteDamage, resolveDamage } from '../../store/history-damages.ts';
import type { ProjectRow } from '../../store/schema.ts';
import type { EngineContext } from '../context.ts';
import { discardTimeline } from '../first-start.ts';
import { thinTimeline } from '../history/thinning.ts';
import { stopPoint } from '../stop-point.ts';
import { volumeOwner } from '../volume-owner.ts';
import type { FetchBase } from './patched-volume.ts';
import { bytesOfStored, fetchTimeline } from './stored-timeline.ts';
import { requireObjects, toldOfObjects } from './storing.ts';

/**
 * Brings a timeline that is in object storage alone to this machine, whole: nobody sees any of it before `observe` has said
 * so. The history that the window has left behind meanwhile goes. What is stored of it is removed later, by a chore.
 *
 * @param base what the timeline was made from, if that is as it was stored
 */
export async function bringHere(
  ctx: EngineContext,
  wanted: {
    readonly id: TimelineId;
    readonly project: ProjectRow;
    readonly base?: FetchBase;
    readonly signal: AbortSignal;
    readonly observe: (volume: VolumeRef) => Promise<void>;
  },
): Promise<void> {
  const { id, project, observe, signal } = wanted;
  await toldOfObjects(() =>
    noted(ctx, id, async () => {
      const volume = await fetch(ctx, wanted);
      signal.throwIfAborted();
      // All of it was read. Nobody comes here again once that is said.
      for (const damage of await findDamages(ctx.store, id)) {
        if (damage.kind === 'damaged_object') await resolveDamage(ctx.store, damage.id);
      }
      await observe(volume);
    }),
  );
  stopPoint('timeline_unarchive:here');
  const retention_seconds = project.applied_history_retention_seconds ?? project.history_retention_seconds;
  await thinTimeline(ctx, { id, retention_seconds });
}

async function fetch(
  ctx: EngineContext,
  { id, project, base, signal }: Pick<Parameters<typeof bringHere>[1], 'id' | 'project' | 'base' | 'signal'>,
): Promise<VolumeRef> {
  const objects = requireObjects(ctx);
  const { free_bytes, reserve_bytes } = await ctx.storage.pool();
  const needed_bytes = await bytesOfStored(ctx, objects, { id, base, signal });
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
  return fetchTimeline(ctx, objects, { id, base, owner: volumeOwner(ctx, project), signal });
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
