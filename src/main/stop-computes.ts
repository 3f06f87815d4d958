import type { EngineContext } from '../engine/context.ts';
import { isFirstServer } from '../engine/first-start.ts';
import { prepareStop } from '../engine/prepare-stop.ts';
import { findRunningEndpoints, observeEndpointStopped } from '../store/observations.ts';

const CONCURRENT_STOPS = 4;
/** From when on computes are stopped unprepared: whoever stops Coppice does not wait forever. */
const PREPARE_TIMEOUT_MS = 20_000;

/** Every compute sleeps; the next connection after the next start wakes it. */
export async function stopComputes(ctx: EngineContext): Promise<void> {
  const waiting = await findRunningEndpoints(ctx.store);
  const patience = AbortSignal.timeout(PREPARE_TIMEOUT_MS);
  const stop = async ({ id, compute }: (typeof waiting)[number]) => {
    if (compute) {
      if ((await ctx.compute.observe(compute)).state === 'running') await prepareStop(ctx, { id, compute }, patience);
      await ctx.compute.ensureStopped(compute, 'staged');
    }
    await observeEndpointStopped(ctx.store, id);
  };
  const stopNext = async () => {
    for (let endpoint = waiting.pop(); endpoint; endpoint = waiting.pop()) {
      const { id } = endpoint;
      await stop(endpoint).catch((error) => {
        ctx.logger.error({ endpoint_id: id, err: error }, 'a compute could not be stopped; the next start sees to it');
      });
    }
  };
  await Promise.all(Array.from({ length: CONCURRENT_STOPS }, stopNext));
  // No endpoint has taken them over; who works with one finds it stopped.
  for (const compute of (await ctx.compute.list()).filter(isFirstServer)) {
    await ctx.compute.ensureStopped(compute, 'staged');
  }
}
