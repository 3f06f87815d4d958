import { createCall } from '../../store/calls.ts';
import { findDeletedPlaced, findLeftovers } from '../../store/watched.ts';
import type { EngineContext } from '../context.ts';
import { removeCompute } from '../server.ts';

/** Removes what deleted things left behind: computes of endpoints that slept, and volumes whose removal once failed. */
export async function removeLeftovers(ctx: EngineContext): Promise<void> {
  for (const endpoint of await findDeletedPlaced(ctx.store)) await removeCompute(ctx, endpoint, 'staged');
  for (const { project_id, timeline_id } of await findLeftovers(ctx.store)) {
    await ctx.intent
      .transaction()
      .execute((trx) =>
        createCall(
          trx,
          project_id,
          timeline_id ? [{ action: 'delete_timeline', timeline_id }] : [{ action: 'delete_tenant' }],
        ),
      );
  }
}
