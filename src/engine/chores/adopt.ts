import { findRunningEndpoints, observeEndpointStopped, observeEndpointStopping } from '../../store/observations.ts';
import type { EngineContext } from '../context.ts';
import { forEach } from '../each.ts';

/**
 * At start: what an earlier process left running goes on, what ended meanwhile sleeps until somebody needs it, and
 * servers that belong to nothing are stopped. Unfinished operations find out by themselves how far they came.
 */
export async function adoptComputes(ctx: EngineContext): Promise<void> {
  const known = new Set<string>();
  for (const endpoint of await findRunningEndpoints(ctx.store)) {
    const { state } = endpoint.compute ? await ctx.compute.observe(endpoint.compute) : { state: 'stopped' };
    if (state === 'stopped') await observeEndpointStopped(ctx.store, endpoint.id);
    else {
      known.add(endpoint.id);
      // A suspend that was under way says so again when it goes on.
      if (endpoint.observed_state === 'stopping') await observeEndpointStopping(ctx.store, endpoint.id, false);
    }
  }
  await forEach(ctx, 'adopt', await ctx.compute.list(), async (compute) => {
    if (known.has(compute.id) || ctx.own_computes.has(compute.id)) return;
    ctx.logger.warn({ endpoint_id: compute.id }, 'a server that belongs to nothing is stopped');
    await ctx.compute.ensureStopped(compute, 'staged');
  });
}
