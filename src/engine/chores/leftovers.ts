import { createCall } from '../../store/calls.ts';
import { findKeptTooLong, writeBranchPurge } from '../../store/deleted-branches.ts';
import { giveUpTimelines, lockDeletedProject } from '../../store/deleted-projects.ts';
import { deleteJwksOfProject } from '../../store/project-jwks.ts';
import { lockLiveProject } from '../../store/projects.ts';
import { findDeletedPlaced, findLeftovers } from '../../store/watched.ts';
import type { EngineContext } from '../context.ts';
import { forEach } from '../each.ts';
import { removeUnsettledSnapshots } from '../history/snapshots.ts';
import { removeCompute } from '../server.ts';
import { stopLeftFirstServers } from './adopt.ts';

/** Removes what deleted things left behind: computes of endpoints that slept, and volumes whose removal once failed. */
export async function removeLeftovers(ctx: EngineContext): Promise<void> {
  await stopLeftFirstServers(ctx);
  await removeUnsettledSnapshots(ctx);
  const placed = await findDeletedPlaced(ctx.store);
  await forEach(ctx, 'leftovers', placed, async ({ id }) => {
    // Its branch may have come back meanwhile, and be in use.
    const [endpoint] = await findDeletedPlaced(ctx.store, id);
    if (endpoint) await removeCompute(ctx, endpoint, 'staged');
  });
  await purgeKeptBranches(ctx);
  const found = await findLeftovers(ctx.store, ctx.keep_deleted_projects_ms);
  const leftovers = found.map((row) => ({ ...row, id: row.timeline_id ?? row.project_id }));
  await forEach(ctx, 'leftovers', leftovers, async ({ project_id, timeline_id }) => {
    await ctx.intent.transaction().execute(async (trx) => {
      if (timeline_id) return createCall(trx, project_id, [{ action: 'delete_timeline', timeline_id }]);
      // Somebody may have brought it back.
      if (!(await lockDeletedProject(trx, project_id))) return;
      await giveUpTimelines(trx, project_id);
      await deleteJwksOfProject(trx, project_id);
      return createCall(trx, project_id, [{ action: 'delete_tenant' }]);
    });
  });
}

/** The data of deleted branches goes once they were kept for long enough. */
async function purgeKeptBranches(ctx: EngineContext): Promise<void> {
  const kept_ms = ctx.keep_deleted_branches_ms;
  await forEach(ctx, 'leftovers', await findKeptTooLong(ctx.store, kept_ms), ({ id, project_id }) =>
    ctx.intent.transaction().execute(async (trx) => {
      await lockLiveProject(trx, project_id);
      // Somebody may have brought it back.
      const [kept] = await findKeptTooLong(trx, kept_ms, id);
      if (kept) await writeBranchPurge(trx, kept);
    }),
  );
}
