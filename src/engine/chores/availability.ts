import { claimedTimeline, retryDelayMs } from '../../domain/operation-kinds.ts';
import { createCall } from '../../store/calls.ts';
import { observeEndpointCrashed } from '../../store/observations.ts';
import { findWatchedEndpoints, lockSettledEndpoint, type WatchedEndpoint } from '../../store/watched.ts';
import type { EngineContext } from '../context.ts';
import { forEach } from '../each.ts';
import { lookForJobsAt } from '../look-for-jobs.ts';

/**
 * Notices computes that ended by themselves and starts them again, later the more often they did. Returns one round;
 * call it now and then, and when a compute is said to have ended.
 */
export function availability(ctx: EngineContext): () => Promise<void> {
  return async () => {
    await forEach(ctx, 'availability', await findWatchedEndpoints(ctx.store), async (endpoint) => {
      const { state } = await ctx.compute.observe(endpoint.compute);
      if (state === 'stopped') await restart(ctx, endpoint);
    });
  };
}

async function restart(ctx: EngineContext, endpoint: WatchedEndpoint): Promise<void> {
  let run_at: Date | undefined;
  const settled = await ctx.intent.transaction().execute(async (trx) => {
    if (!(await lockSettledEndpoint(trx, endpoint))) return false;
    const crashes = await observeEndpointCrashed(trx, endpoint.id);
    run_at = crashes > 1 ? new Date(Date.now() + retryDelayMs(crashes - 1)) : undefined;
    const { id: endpoint_id, branch_id } = endpoint;
    const timeline_id = claimedTimeline(endpoint);
    const operation = { action: 'start_compute', endpoint_id, branch_id, timeline_id } as const;
    await createCall(trx, endpoint.project_id, [operation], { run_at });
    return true;
  });
  if (!settled) return;
  if (run_at) lookForJobsAt(ctx, run_at);
  const log = await ctx.compute.tailLog(endpoint.compute, 5);
  ctx.logger.warn({ endpoint_id: endpoint.id, log }, 'a compute ended by itself and is started again');
}
