import { ObjectError } from '../../drivers/objects/contract.ts';
import { type LogShipping, observeLogShipping } from '../../store/log-shipping.ts';
import type { EngineContext } from '../context.ts';
import { stopPoint } from '../stop-point.ts';

/** After a failure it is tried again after so long, then twice as long, up to this. */
const RETRY_MIN_MS = 2_000;
const RETRY_MAX_MS = 60_000;
const SHIP_EVERY_MS = 5_000;
const REST_MAX_MS = 30_000;
const FREE_EVERY_MS = 60_000;

export interface LogShippingChores {
  /** One round; tells whether something waits. */
  ship(): Promise<boolean>;
  free(): Promise<boolean>;
  readonly ship_every_ms: number;
  readonly rest_ms: number;
  readonly free_every_ms: number;
}

/**
 * Sends archived log to object storage, and frees this disk of what is confirmed there. Servers never wait for it: while
 * object storage cannot be used, everything stays here. Undefined where there is none.
 */
export function shipLog(ctx: EngineContext): LogShippingChores | undefined {
  const { shipping, objects } = ctx;
  if (!shipping || !objects) return undefined;
  const { archive, after_ms, local_ms } = shipping;
  const observe = observer(ctx);
  let checked = false;
  let failure: { readonly since: Date; readonly message: string; delay_ms: number; next: number } | undefined;

  const fail = ({ message }: ObjectError) => {
    // Said once, until it is over.
    if (!failure) ctx.logger.error({ reason: message }, 'log cannot be sent to object storage; it stays on this disk');
    const delay_ms = failure ? Math.min(failure.delay_ms * 2, RETRY_MAX_MS) : RETRY_MIN_MS;
    failure = { since: failure?.since ?? new Date(), message, delay_ms, next: Date.now() + delay_ms };
  };

  const ship = async () => {
    if (failure && Date.now() < failure.next) return true;
    const ids = await archive.restless();
    let failed: ObjectError | undefined;
    try {
      if (!checked) await objects.check();
      checked = true;
      for (const id of ids) await archive.ship(id, new Date(Date.now() - after_ms));
    } catch (error) {
      if (!(error instanceof ObjectError)) throw error;
      failed = error;
    }
    if (failed) fail(failed);
    else if (failure) {
      ctx.logger.info({}, 'log is sent to object storage again');
      failure = undefined;
    }
    let waiting_segments = 0;
    let waiting_since: Date | null = null;
    for (const id of ids) {
      const { files, since } = await archive.waiting(id);
      waiting_segments += files;
      if (since && (!waiting_since || since < waiting_since)) waiting_since = since;
    }
    const { message = null, since = null } = failure ?? {};
    await observe({ waiting_segments, waiting_since, failure: message, failing_since: since });
    return ids.length > 0 || failure !== undefined;
  };

  const free = async () => {
    if (local_ms === undefined) return false;
    // What is confirmed is there; but what has just failed may not be what it was.
    if (failure) return true;
    for (const id of await archive.timelines()) {
      if ((await archive.free(id, new Date(Date.now() - local_ms))) > 0) stopPoint('archive:freed');
    }
    return true;
  };
  return {
    ship,
    free,
    ship_every_ms: Math.min(SHIP_EVERY_MS, after_ms),
    // What was archived while it rested is late by no more.
    rest_ms: Math.min(REST_MAX_MS, after_ms),
    free_every_ms: Math.min(FREE_EVERY_MS, local_ms ?? FREE_EVERY_MS),
  };
}

/** Writes down what is new. */
function observer({ store }: EngineContext): (seen: LogShipping) => Promise<void> {
  let last = '';
  return async (seen) => {
    const text = JSON.stringify(seen);
    if (text === last) return;
    await observeLogShipping(store, seen);
    last = text;
  };
}
