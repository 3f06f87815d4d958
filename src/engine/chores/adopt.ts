import type { ComputeRef } from '../../drivers/compute/contract.ts';
import {
  findPlacedEndpoints,
  findRunningEndpoints,
  observeEndpointStopped,
  observeEndpointStopping,
} from '../../store/observations.ts';
import { findTimelinesInWork } from '../../store/operations.ts';
import type { EngineContext } from '../context.ts';
import { forEach } from '../each.ts';
import { firstServerRef, isFirstServer } from '../first-start.ts';
import { schemaSourceId } from '../schema-source.ts';

/**
 * At start: what an earlier process left running goes on, what ended meanwhile sleeps until somebody needs it, and
 * servers that belong to nothing are stopped. Unfinished operations find out by themselves how far they came.
 */
export async function adoptComputes(ctx: EngineContext): Promise<void> {
  const known = new Set(ctx.own_computes);
  for (const endpoint of await findRunningEndpoints(ctx.store)) {
    const { state } = endpoint.compute ? await ctx.compute.observe(endpoint.compute) : { state: 'stopped' };
    if (state === 'stopped') await observeEndpointStopped(ctx.store, endpoint.id);
    else {
      known.add(endpoint.compute!.id);
      // A suspend that was under way says so again when it goes on.
      if (endpoint.observed_state === 'stopping') await observeEndpointStopping(ctx.store, endpoint.id, false);
    }
  }
  await forEach(ctx, 'adopt', await ctx.compute.list(), async (compute) => {
    if (!known.has(compute.id)) await stopUnowned(ctx, compute);
  });
}

/**
 * Stops first servers of timelines that no endpoint took over and that nobody works with any more: their call was cancelled, or their
 * endpoint was moved before it started.
 */
export async function stopLeftFirstServers(ctx: EngineContext): Promise<void> {
  // In this order: who works with one may hand it to an endpoint meanwhile.
  const running = (await ctx.compute.list()).filter(isFirstServer);
  if (running.length === 0) return;
  const owned = new Set<string>();
  for (const id of await findTimelinesInWork(ctx.store)) {
    for (const timeline of [id, schemaSourceId(id)]) owned.add(firstServerRef(ctx, timeline).id);
  }
  for (const { compute } of await findPlacedEndpoints(ctx.store)) if (compute) owned.add(compute.id);
  await forEach(ctx, 'leftovers', running, async (compute) => {
    if (!owned.has(compute.id)) await stopUnowned(ctx, compute);
  });
}

async function stopUnowned(ctx: EngineContext, compute: ComputeRef): Promise<void> {
  ctx.logger.warn({ subject: compute.id }, 'a server that belongs to nothing is stopped');
  await ctx.compute.ensureStopped(compute, 'staged');
  if (isFirstServer(compute)) await ctx.compute.ensureRemoved(compute);
}
