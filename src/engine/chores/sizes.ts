import { findTimelinesToMeasure, observePool, observeTimelineSize } from '../../store/observations.ts';
import { findSnapshotsToMeasure, observeSnapshotSize } from '../../store/timeline-snapshots.ts';
import type { EngineContext } from '../context.ts';
import { forEach } from '../each.ts';

/** Records how full the storage is, so that what would fill it is refused before it begins. */
export async function watchPool(ctx: EngineContext): Promise<void> {
  const pool = await ctx.storage.pool();
  await observePool(ctx.store, { driver: ctx.storage.name, ...pool });
}

/** Measures a few volumes whose size is old: those of branches that were in use since, new ones, and snapshots. */
export async function measureVolumes(ctx: EngineContext): Promise<void> {
  await forEach(ctx, 'sizes', await findTimelinesToMeasure(ctx.store), async ({ id, volume }) => {
    // One that cannot be measured waits its turn again like the others.
    await observeTimelineSize(ctx.store, id, undefined);
    if (volume) await observeTimelineSize(ctx.store, id, await ctx.storage.measure(volume));
  });
  await forEach(ctx, 'sizes', await findSnapshotsToMeasure(ctx.store), async ({ id, volume }) => {
    await observeSnapshotSize(ctx.store, id, undefined);
    const { unshared_bytes, logical_bytes } = await ctx.storage.measure(volume);
    // Where blocks cannot be shared, all of them are its own.
    const whole_bytes = ctx.storage.capabilities.instant_clone ? undefined : logical_bytes;
    await observeSnapshotSize(ctx.store, id, unshared_bytes ?? whole_bytes);
  });
}
