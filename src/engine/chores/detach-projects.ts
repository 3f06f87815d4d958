import { createCall } from '../../store/calls.ts';
import { findUnusedProjects } from '../../store/detached-projects.ts';
import { lockLiveProject } from '../../store/projects.ts';
import type { EngineContext } from '../context.ts';
import { forEach } from '../each.ts';

/** Detaches projects that nobody has needed for long. Tells whether that is asked for at all. */
export async function detachUnused(ctx: EngineContext, now: Date): Promise<boolean> {
  const after_ms = ctx.detach_projects_after_ms;
  if (!ctx.objects || after_ms === undefined) return false;
  const untouched_since = new Date(now.getTime() - after_ms);
  await forEach(ctx, 'detach_projects', await findUnusedProjects(ctx.store, { untouched_since }), ({ id }) =>
    ctx.intent.transaction().execute(async (trx) => {
      await lockLiveProject(trx, id);
      // Whoever comes to use it waits for the lock, or was first.
      const [unused] = await findUnusedProjects(trx, { untouched_since, id });
      if (unused) await createCall(trx, id, [{ action: 'tenant_detach' }]);
    }),
  );
  return true;
}
