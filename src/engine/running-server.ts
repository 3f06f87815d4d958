import type { ComputeRef } from '../drivers/compute/contract.ts';
import { findPlacedEndpoints } from '../store/observations.ts';
import type { EngineContext } from './context.ts';

/** The server that writes to a timeline now; undefined when nothing writes to it any more. */
export async function findRunningServer(ctx: EngineContext, timelineId: string): Promise<ComputeRef | undefined> {
  for (const { compute } of await findPlacedEndpoints(ctx.store, { timeline_id: timelineId })) {
    if (!compute) continue;
    const { state, crashed } = await ctx.compute.observe(compute);
    if (state === 'running') return compute;
    // Children that were busy when their server was killed work on, and write.
    if (crashed) await ctx.compute.ensureStopped(compute, 'immediate');
  }
  return undefined;
}
