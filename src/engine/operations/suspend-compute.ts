import { findEndpointFacts, observeEndpointRemoved, observeEndpointStopped, observeEndpointStopping } from '../../store/observations.ts';
import { settleBeforeStop } from '../activity.ts';
import { learnFromServer } from '../learn.ts';
import type { RunOperation } from '../run-call.ts';
import { dialer } from '../server.ts';
import { stopPoint } from '../stop-point.ts';

/**
 * Stops the endpoint's server. While it stops, the gateway holds new connections, which the next start serves. A stop
 * for idleness looks once more, after the checkpoint that makes the stop short, and leaves a compute that is in use.
 */
export const suspendCompute: RunOperation = async (ctx, operation) => {
  const facts = await findEndpointFacts(ctx.store, operation.endpoint_id!);
  if (!facts?.compute) return 'skipped';
  const { state } = await ctx.compute.observe(facts.compute);
  if (state === 'running') {
    await observeEndpointStopping(ctx.store, facts.id, true);
    stopPoint('suspend_compute:stopping');
    const onlyIfIdle = operation.arguments.only_if_idle === true && !facts.deleted_at && !facts.disabled;
    const idle = await settleBeforeStop(dialer(ctx, facts.compute), operation.arguments).catch((error) => {
      // A server that does not answer is stopped all the same.
      ctx.logger.warn({ endpoint_id: facts.id, error }, 'could not prepare a stop');
      return true;
    });
    if (onlyIfIdle && !idle) {
      await observeEndpointStopping(ctx.store, facts.id, false);
      return 'skipped';
    }
    if (!facts.deleted_at) await learnFromServer(ctx, facts).catch((error) => ctx.logger.warn({ endpoint_id: facts.id, error }, 'could not read roles before a stop'));
    await ctx.compute.ensureStopped(facts.compute, 'staged');
    stopPoint('suspend_compute:stopped');
  }
  await observeEndpointStopped(ctx.store, facts.id);
  if (facts.deleted_at) {
    await ctx.compute.ensureRemoved(facts.compute);
    await observeEndpointRemoved(ctx.store, facts.id);
  }
  return 'finished';
};
