import { setTimeout as delay } from 'node:timers/promises';
import { CoppiceError } from '../../domain/errors.ts';
import type { OperationId } from '../../domain/ids.ts';
import { bringVolume } from '../../store/calls.ts';
import { findTimeline } from '../../store/observations.ts';
import { findOperation } from '../../store/operations.ts';
import type { TimelineRow } from '../../store/schema.ts';
import type { EngineContext } from '../context.ts';

/** Whoever waits for a call of the API is still there then. */
const WAIT_MAX_MS = 20_000;
const LOOK_INTERVAL_MS = 100;

/**
 * The timeline with its volume, which is brought back from object storage. Throws `branch_unarchiving` when that takes longer
 * than a caller waits: it goes on, and the next caller finds it done.
 */
export async function broughtBack(ctx: EngineContext, timeline: TimelineRow): Promise<TimelineRow> {
  const { id, project_id } = timeline;
  const [operation] = await ctx.intent
    .transaction()
    .execute((trx) => bringVolume(trx, { timeline_id: id, project_id }));
  const deadline = Date.now() + WAIT_MAX_MS;
  while (operation && !(await hasEnded(ctx, operation.id))) {
    if (Date.now() > deadline) throw new CoppiceError('branch_unarchiving', { timeline_id: id });
    await delay(LOOK_INTERVAL_MS);
  }
  const back = await findTimeline(ctx.store, id);
  if (!back?.volume) throw new CoppiceError('branch_not_ready');
  return back;
}

async function hasEnded(ctx: EngineContext, id: OperationId): Promise<boolean> {
  const operation = await findOperation(ctx.store, id);
  if (operation?.status === 'failed') {
    throw new CoppiceError('branch_not_unarchived', { reason: operation.error ?? 'unknown' });
  }
  return operation === undefined || ['finished', 'skipped', 'cancelled'].includes(operation.status);
}
