import { setTimeout as delay } from 'node:timers/promises';
import type { EndpointId, TimelineId } from '../../domain/ids.ts';
import { consistentEnd } from '../../postgres/consistent-end.ts';
import { isStartWaiting } from '../../store/operations.ts';
import { findSnapshotNeed } from '../../store/timeline-snapshots.ts';
import type { EngineContext } from '../context.ts';
import { interruptSnapshots } from './snapshot-work.ts';
import { copyStopped, takeSnapshot } from './snapshots.ts';
import { wroteSince } from './written-since.ts';

/** The copy of a very large volume may take longer, and is then made while its server runs. */
const TAKE_TIMEOUT_MS = 60_000;
/** Whoever wants the compute meanwhile waits no longer than this: the copy is given up. */
const START_WAIT_MAX_MS = 500;
const LOOK_INTERVAL_MS = 250;

/**
 * Takes a snapshot of a timeline whose server has stopped, if anything was written since the last one: then it is clean
 * and costs next to nothing. Where a copy costs time and space, it is left to the budget of running servers. A suspend
 * does not fail for want of a snapshot.
 */
export async function takeSuspendSnapshot(
  ctx: EngineContext,
  { timeline_id, endpoint_id }: { readonly timeline_id: TimelineId; readonly endpoint_id: EndpointId },
  signal: AbortSignal,
): Promise<void> {
  const done = new AbortController();
  const wanted = new AbortController();
  void giveWay(ctx, endpoint_id, { wanted, done: done.signal });
  const patience = AbortSignal.any([signal, wanted.signal, AbortSignal.timeout(TAKE_TIMEOUT_MS)]);
  try {
    await take(ctx, timeline_id, patience);
  } catch (error) {
    ctx.logger.warn({ timeline_id, err: error }, 'a compute sleeps without a snapshot of what it wrote');
  } finally {
    done.abort();
  }
}

async function take(ctx: EngineContext, timeline_id: TimelineId, signal: AbortSignal): Promise<void> {
  await interruptSnapshots(ctx, timeline_id);
  if (!ctx.storage.capabilities.instant_clone) return;
  const need = await findSnapshotNeed(ctx.store, timeline_id);
  if (!need || (need.lsn && !(await wroteSince(ctx, need, need.lsn)))) return;
  const timestamp = new Date();
  const lsn = await consistentEnd(ctx.storage.path(need.volume));
  await takeSnapshot(ctx, {
    timeline_id,
    kind: 'suspend',
    store: ctx.store,
    copy: async (id) => ({
      volume: await copyStopped(ctx, need.volume, id, signal),
      point: { lsn, timestamp },
    }),
  });
}

/** Aborts `wanted` when somebody waits for the endpoint to start, unless `done` comes first. */
async function giveWay(
  ctx: EngineContext,
  endpointId: EndpointId,
  { wanted, done }: { wanted: AbortController; done: AbortSignal },
): Promise<void> {
  try {
    await delay(START_WAIT_MAX_MS, undefined, { signal: done });
    while (!(await isStartWaiting(ctx.store, endpointId))) await delay(LOOK_INTERVAL_MS, undefined, { signal: done });
    wanted.abort(new Error('the compute is wanted again'));
  } catch (error) {
    if (!done.aborted) wanted.abort(error);
  }
}
