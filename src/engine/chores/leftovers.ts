import { createCall } from '../../store/calls.ts';
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
  await forEach(ctx, 'leftovers', placed, (endpoint) => removeCompute(ctx, endpoint, 'staged'));
  const leftovers = (await findLeftovers(ctx.store)).map((row) => ({ ...row, id: row.timeline_id ?? row.project_id }));
  await forEach(ctx, 'leftovers', leftovers, async ({ project_id, timeline_id }) => {
    const operation = timeline_id
      ? ({ action: 'delete_timeline', timeline_id } as const)
      : ({ action: 'delete_tenant' } as const);
    await ctx.intent.transaction().execute((trx) => createCall(trx, project_id, [operation]));
  });
}
