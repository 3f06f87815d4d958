import { setTimeout as delay } from 'node:timers/promises';
import { LIMITS } from '../../domain/limits.ts';
import type { Lsn } from '../../domain/lsn.ts';
import { claimedTimeline } from '../../domain/operation-kinds.ts';
import { type ActivityCounters, readActivity } from '../../postgres/activity.ts';
import { createCall } from '../../store/calls.ts';
import { observeEndpointActive, observeEndpointSteady } from '../../store/observations.ts';
import { findWatchedEndpoints, lockSettledEndpoint, type WatchedEndpoint } from '../../store/watched.ts';
import type { EngineContext } from '../context.ts';
import { learnFromServer } from '../learn.ts';
import { meterServer } from '../meter-server.ts';
import type { SuspendArguments } from '../operations/suspend-compute.ts';
import { sessions } from '../sessions.ts';

/** A compute is looked at eight times in its timeout, within these bounds. */
const LOOK_INTERVAL_MAX_MS = 10_000;
const LOOK_INTERVAL_MIN_MS = 250;
/** A compute that ran this long did not crash at its start. */
const STEADY_AFTER_MS = 60_000;
const CONCURRENT_LOOKS = 8;
/** A server that does not answer a look for so long is hung, */
const LOOK_TIMEOUT_MS = 10_000;
/** and is looked at again after so long. */
const HUNG_PAUSE_MS = 30_000;
/** Others are not kept waiting longer than that by servers that are hung. */
const ROUND_MAX_MS = 1_000;

interface Look {
  readonly started_at: number;
  readonly counters: ActivityCounters;
  readonly last_active_at: number;
  readonly looked_at: number;
  readonly written: Lsn | undefined;
}

/**
 * Suspends computes that nobody has used for their timeout. Returns one round of it, which tells whether any
 * compute runs; call it again and again, until `stopping` is aborted.
 */
export function idleSuspend(ctx: EngineContext, stopping: AbortSignal): () => Promise<boolean> {
  const looks = new Map<string, Look>();
  const underWay = new Set<string>();
  const hungUntil = new Map<string, number>();
  const isFree = ({ id }: WatchedEndpoint) => !underWay.has(id) && !((hungUntil.get(id) ?? 0) > Date.now());

  const lookAt = async (endpoint: WatchedEndpoint) => {
    const { id } = endpoint;
    underWay.add(id);
    hungUntil.delete(id);
    const patience = AbortSignal.timeout(LOOK_TIMEOUT_MS);
    try {
      await look(ctx, looks, endpoint, AbortSignal.any([stopping, patience]));
    } catch (error) {
      if (patience.aborted) hungUntil.set(id, Date.now() + HUNG_PAUSE_MS);
      // It may just be ending; the availability chore tells.
      if (!stopping.aborted)
        ctx.logger.warn({ endpoint_id: id, err: error }, 'the activity of a compute could not be read');
    } finally {
      underWay.delete(id);
    }
  };
  return async () => {
    const endpoints = await findWatchedEndpoints(ctx.store);
    const ids = new Set(endpoints.map((endpoint) => endpoint.id));
    for (const known of [looks, hungUntil]) for (const id of known.keys()) if (!ids.has(id)) known.delete(id);
    const due = endpoints.filter((endpoint) => isFree(endpoint) && isDue(looks.get(endpoint.id), endpoint));
    const end = Date.now() + ROUND_MAX_MS;
    const lookOn = async () => {
      for (let next = due.shift(); next && Date.now() < end; next = due.shift()) await lookAt(next);
    };
    const slots = Math.max(0, CONCURRENT_LOOKS - underWay.size);
    await Promise.race([
      Promise.all(Array.from({ length: slots }, lookOn)),
      delay(ROUND_MAX_MS, undefined, { ref: false }),
    ]);
    return endpoints.length > 0;
  };
}

function isDue(look: Look | undefined, endpoint: WatchedEndpoint): boolean {
  if (!look || look.started_at !== endpoint.started_at.getTime()) return true;
  // Reckoned anew each time, since the timeout may have been changed.
  const interval_ms = Math.min(LOOK_INTERVAL_MAX_MS, Math.max(LOOK_INTERVAL_MIN_MS, timeoutMs(endpoint) / 8));
  return look.looked_at + interval_ms <= Date.now();
}

async function look(
  ctx: EngineContext,
  looks: Map<string, Look>,
  endpoint: WatchedEndpoint,
  signal: AbortSignal,
): Promise<void> {
  const known = looks.get(endpoint.id);
  const previous = known?.started_at === endpoint.started_at.getTime() ? known : undefined;
  await using session = await sessions(ctx, endpoint.compute, signal)('postgres');
  const activity = await readActivity(session, previous?.counters);
  const written = await meterServer(ctx, endpoint.id, session, previous?.written);
  const seen = activity.last_active_at?.getTime() ?? 0;
  const last_active_at = Math.max(seen, previous?.last_active_at ?? 0, endpoint.started_at.getTime());
  const timeout_ms = timeoutMs(endpoint);
  const now = Date.now();
  looks.set(endpoint.id, {
    started_at: endpoint.started_at.getTime(),
    counters: activity.counters,
    last_active_at,
    looked_at: now,
    written,
  });
  await observeEndpointActive(ctx.store, endpoint.id, new Date(last_active_at));
  if (now - endpoint.started_at.getTime() > STEADY_AFTER_MS) await observeEndpointSteady(ctx.store, endpoint.id);
  // What was done in SQL is learnt while it happens, so that the gateway knows it when the compute sleeps.
  const active = activity.busy || !previous || seen > previous.last_active_at;
  if (active) await learnFromServer(ctx, endpoint.id);
  if (now - last_active_at >= timeout_ms && !activity.busy) {
    await suspend(ctx, endpoint, { counters: activity.counters, decided_at_ms: now });
  }
}

/** Time without activity until a suspend; endless where the endpoint says so. */
function timeoutMs({ suspend_timeout_seconds }: WatchedEndpoint): number {
  if (suspend_timeout_seconds < 0) return Number.POSITIVE_INFINITY;
  return (suspend_timeout_seconds || LIMITS.suspend_timeout_seconds_default) * 1000;
}

async function suspend(
  ctx: EngineContext,
  endpoint: WatchedEndpoint,
  decision: Pick<SuspendArguments, 'counters' | 'decided_at_ms'>,
): Promise<void> {
  await ctx.intent.transaction().execute(async (trx) => {
    // Whoever starts, stops or changes it meanwhile waits, or was first.
    if (!(await lockSettledEndpoint(trx, endpoint))) return;
    await createCall(trx, endpoint.project_id, [
      {
        action: 'suspend_compute',
        endpoint_id: endpoint.id,
        branch_id: endpoint.branch_id,
        timeline_id: claimedTimeline(endpoint),
        arguments: { only_if_idle: true, ...decision },
      },
    ]);
  });
}
