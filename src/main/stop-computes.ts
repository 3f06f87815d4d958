import type { EngineContext } from '../engine/context.ts';
import { findRunningEndpoints, observeEndpointStopped } from '../store/observations.ts';

const CONCURRENT_STOPS = 4;

/** Every compute sleeps; the next connection after the next start wakes it. */
export async function stopComputes(ctx: EngineContext): Promise<void> {
  const waiting = await findRunningEndpoints(ctx.store);
  const stopNext = async () => {
    for (let endpoint = waiting.pop(); endpoint; endpoint = waiting.pop()) {
      if (endpoint.compute) await ctx.compute.ensureStopped(endpoint.compute, 'staged');
      await observeEndpointStopped(ctx.store, endpoint.id);
    }
  };
  await Promise.all(Array.from({ length: CONCURRENT_STOPS }, stopNext));
}
