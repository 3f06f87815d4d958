import { findStoredForNothing, findUnusedBranches, observeTimelineNotStored } from '../../store/archived-timelines.ts';
import { createCall } from '../../store/calls.ts';
import { lockLiveProject } from '../../store/projects.ts';
import type { EngineContext } from '../context.ts';
import { forEach } from '../each.ts';
import { removeStored } from '../objects/stored-timeline.ts';
import { storingAlone } from '../objects/storing.ts';

/** Archives branches that nobody has needed for long. Tells whether that is asked for at all. */
export async function archiveUnused(ctx: EngineContext, now: Date): Promise<boolean> {
  if (!ctx.objects || ctx.archive_branches.after_ms === undefined) return false;
  const { after_ms, min_age_ms } = ctx.archive_branches;
  const bounds = {
    made_before: new Date(now.getTime() - min_age_ms),
    untouched_since: new Date(now.getTime() - after_ms),
  };
  await forEach(ctx, 'archive_branches', await findUnusedBranches(ctx.store, bounds), ({ id, project_id }) =>
    ctx.intent.transaction().execute(async (trx) => {
      await lockLiveProject(trx, project_id);
      // Whoever comes to use it waits for the lock, or was first.
      const [unused] = await findUnusedBranches(trx, { ...bounds, id });
      if (!unused) return;
      const operation = { action: 'timeline_archive', branch_id: id, timeline_id: unused.timeline_id } as const;
      await createCall(trx, project_id, [operation]);
    }),
  );
  return true;
}

/** Removes from object storage what was brought back, or never came to be whole. Tells whether there was any. */
export async function removeUnneeded(ctx: EngineContext): Promise<boolean> {
  const { objects } = ctx;
  if (!objects) return false;
  const ids = await findStoredForNothing(ctx.store);
  await forEach(
    ctx,
    'archive_branches',
    ids.map((id) => ({ id })),
    ({ id }) =>
      storingAlone(ctx, id, async () => {
        if ((await findStoredForNothing(ctx.store, id)).length === 0) return;
        await removeStored(objects, id);
        await observeTimelineNotStored(ctx.intent, id);
      }),
  );
  return ids.length > 0;
}
