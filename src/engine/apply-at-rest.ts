import type { TimelineId } from '../domain/ids.ts';
import type { ComputeRef } from '../drivers/compute/contract.ts';
import type { EndpointFacts } from '../store/observations.ts';
import { quietSpec } from './compute-spec.ts';
import type { EngineContext } from './context.ts';
import type { Revert } from './revert.ts';
import { applyConfigTo, ConfigRefused } from './server.ts';
import { stopPoint } from './stop-point.ts';

/** The server that roles and databases reach a timeline by while nobody else needs one; only the engine reaches it. */
export const configRef = (ctx: EngineContext, id: TimelineId): ComputeRef => ({
  driver: ctx.compute.name,
  id: `config-${id.replaceAll('-', '').slice(0, 23)}`,
});

/**
 * Brings roles and databases to the volume of a branch whose read_write endpoint does not run, or which has none: a
 * replica of it can hold only what is there. The caller holds the claim on the timeline.
 */
export async function applyConfigAtRest(
  ctx: EngineContext,
  facts: EndpointFacts,
  { revert, signal }: { revert: Revert; signal: AbortSignal },
): Promise<void> {
  if (!facts.volume) throw new Error(`timeline ${facts.timeline_id} has no volume`);
  const ref = configRef(ctx, facts.timeline_id);
  const { uid, distribution_id } = facts;
  const data_directory = ctx.storage.path(facts.volume);
  const spec = quietSpec(ctx, { id: ref.id, uid, distribution_id, data_directory, replays: false });
  revert.add(() => ctx.compute.ensureStopped(ref, 'immediate'));
  await ctx.compute.ensureRunning(spec, signal);
  stopPoint('start_compute:config');
  await applyConfigTo(ctx, facts, ref, signal).catch((error) => {
    if (!(error instanceof ConfigRefused)) throw error;
    ctx.logger.warn({ endpoint_id: facts.id, err: error }, 'a replica starts without a change that its branch refuses');
  });
  await ctx.compute.ensureStopped(ref, 'staged');
  await ctx.compute.ensureRemoved(ref);
}
