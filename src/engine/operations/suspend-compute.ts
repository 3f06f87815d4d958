import type { ComputeRef } from '../../drivers/compute/contract.ts';
import { type ActivityCounters, endClients, readActivity } from '../../postgres/activity.ts';
import {
  type EndpointFacts,
  findEndpointFacts,
  findTimeline,
  observeEndpointStopped,
  observeEndpointStopping,
} from '../../store/observations.ts';
import type { EngineContext } from '../context.ts';
import { takeSuspendSnapshot } from '../history/suspend-snapshot.ts';
import { takeInStopped } from '../history/take-in.ts';
import { prepareStop } from '../prepare-stop.ts';
import type { RunOperation } from '../run-call.ts';
import { removeCompute } from '../server.ts';
import { sessions } from '../sessions.ts';
import { stopPoint } from '../stop-point.ts';

const LOOK_TIMEOUT_MS = 10_000;

/** How a suspend that is only meant for an idle compute says so in its operation. */
export interface SuspendArguments {
  readonly only_if_idle?: boolean;
  /** What was read when the compute was found idle, and when that was, in milliseconds since 1970. */
  readonly counters?: ActivityCounters;
  readonly decided_at_ms?: number;
}

/**
 * Stops the endpoint's server. While it stops, the gateway holds new connections, which the next start serves. A stop
 * for idleness looks once more, after the checkpoint that makes the stop short, and leaves a compute that is in use.
 */
export const suspendCompute: RunOperation = async (ctx, operation, signal) => {
  const facts = await findEndpointFacts(ctx.store, operation.endpoint_id!);
  if (!facts?.compute) return 'skipped';
  const timeline = facts.serves_timeline_id ? await findTimeline(ctx.store, facts.serves_timeline_id) : undefined;
  // A restore put another in its place, and nobody keeps it.
  const given_up = timeline?.deleted_at != null;
  if ((await ctx.compute.observe(facts.compute)).state === 'running') {
    await observeEndpointStopping(ctx.store, facts.id, true);
    stopPoint('suspend_compute:stopping');
    const wanted = facts.deleted_at === null && !facts.disabled;
    if (given_up) await partWithClients(ctx, facts.compute, signal);
    else await prepareStop(ctx, { id: facts.id, compute: facts.compute }, signal);
    if (wanted && (await isInUse(ctx, facts, operation.arguments, signal))) {
      await observeEndpointStopping(ctx.store, facts.id, false);
      return 'skipped';
    }
    await ctx.compute.ensureStopped(facts.compute, given_up ? 'immediate' : 'staged');
    stopPoint('suspend_compute:stopped');
  }
  await observeEndpointStopped(ctx.store, facts.id);
  if (facts.type === 'read_write' && facts.serves_timeline_id && !facts.ephemeral_of && !given_up) {
    await takeInStopped(ctx, facts.serves_timeline_id).catch((error) => {
      ctx.logger.warn({ endpoint_id: facts.id, err: error }, 'the log of a stopped server is taken in later');
    });
    await takeSuspendSnapshot(ctx, { timeline_id: facts.serves_timeline_id, endpoint_id: facts.id }, signal);
  }
  if (facts.deleted_at) {
    await removeCompute(ctx, facts, 'staged');
  }
  return 'finished';
};

/** Before a stop that writes nothing out: whoever is connected hears an orderly end, as of any stop. */
async function partWithClients(ctx: EngineContext, compute: ComputeRef, signal: AbortSignal): Promise<void> {
  const patience = AbortSignal.any([signal, AbortSignal.timeout(LOOK_TIMEOUT_MS)]);
  try {
    await using session = await sessions(ctx, compute, patience)('postgres');
    await endClients(session);
  } catch (error) {
    ctx.logger.warn({ endpoint_id: compute.id, err: error }, 'clients could not be told of a stop');
  }
}

/** True when a compute that was said to be idle is in use. */
async function isInUse(
  ctx: EngineContext,
  facts: EndpointFacts,
  { only_if_idle = false, counters, decided_at_ms = 0 }: SuspendArguments,
  signal: AbortSignal,
): Promise<boolean> {
  if (!only_if_idle) return false;
  const patience = AbortSignal.any([signal, AbortSignal.timeout(LOOK_TIMEOUT_MS)]);
  try {
    await using session = await sessions(ctx, facts.compute!, patience)('postgres');
    const { busy, last_active_at } = await readActivity(session, counters);
    // Without a decision it was woken by ourselves, so that any use at all is somebody else's. A session counts what it
    // did some seconds late, but tells at once when it did something last.
    return busy || (last_active_at !== undefined && last_active_at.getTime() > decided_at_ms);
  } catch (error) {
    ctx.logger.warn({ endpoint_id: facts.id, err: error }, 'whether a compute is in use could not be read');
    return false;
  }
}
