import type { TimelineId } from '../domain/ids.ts';
import type { ComputeRef } from '../drivers/compute/contract.ts';
import { findPlacedEndpoints } from '../store/observations.ts';
import type { EngineContext } from './context.ts';
import { firstServerRef } from './first-start.ts';

/** The server that writes to a timeline now; undefined when nothing writes to it any more. */
export async function findRunningServer(ctx: EngineContext, timelineId: TimelineId): Promise<ComputeRef | undefined> {
  for (const { compute } of await findPlacedEndpoints(ctx.store, { timeline_id: timelineId })) {
    if (!compute) continue;
    const { state, crashed } = await ctx.compute.observe(compute);
    if (state === 'running') return compute;
    // Children that were busy when their server was killed work on, and write.
    if (crashed) await ctx.compute.ensureStopped(compute, 'immediate');
  }
  // No endpoint has taken it over yet.
  const first = firstServerRef(ctx, timelineId);
  return (await ctx.compute.observe(first)).state === 'running' ? first : undefined;
}
