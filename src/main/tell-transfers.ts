import { randomUUID } from 'node:crypto';
import type { Transfer } from '../gateway/transfers.ts';
import type { Store } from '../store/connection.ts';
import { meterTransfers } from '../store/metering.ts';
import type { Log } from '../watch/log-fields.ts';

const INTERVAL_MS = 10_000;
/** In one statement. */
const ENDPOINTS_AT_ONCE = 500;

/** What a gateway passed on, and has not been asked for yet. */
export interface TransferSource {
  transfersPending(): boolean;
  takeTransfers(): Transfer[];
}

export interface TransferTeller {
  /** There may be something to tell from now on. */
  begin(): void;
  /** Tells what is left. */
  stop(): Promise<void>;
}

/**
 * Tells our own database what this process passed on, every ten seconds while somebody is connected. What could not be told is
 * told again: each batch has its number, so that it is added once.
 */
export function tellTransfers(store: Store, source: () => TransferSource | undefined, logger: Log): TransferTeller {
  const id = randomUUID();
  const waiting: { readonly number: number; readonly transfers: Transfer[] }[] = [];
  let number = 0;
  let timer: NodeJS.Timeout | undefined;
  let stopped = false;
  let running: Promise<void> = Promise.resolve();

  const take = () => {
    const taken = source()?.takeTransfers() ?? [];
    for (let at = 0; at < taken.length; at += ENDPOINTS_AT_ONCE) {
      waiting.push({ number: ++number, transfers: taken.slice(at, at + ENDPOINTS_AT_ONCE) });
    }
  };
  const tell = async () => {
    // While the database is away, the gateway itself adds up.
    if (waiting.length === 0) take();
    try {
      for (let batch = waiting[0]; batch; batch = waiting[0]) {
        await meterTransfers(store, id, batch.number, batch.transfers);
        waiting.shift();
      }
    } catch (error) {
      logger.warn(
        { reason: (error as Error).message },
        'what clients transferred could not be added, and is told again',
      );
    }
  };
  const schedule = () => {
    if (timer || stopped) return;
    timer = setTimeout(() => {
      running = tell().then(() => {
        timer = undefined;
        if (waiting.length > 0 || source()?.transfersPending()) schedule();
      });
    }, INTERVAL_MS);
    timer.unref();
  };
  return {
    begin: schedule,
    stop: async () => {
      stopped = true;
      clearTimeout(timer);
      await running;
      await tell();
      // What was left of an earlier failure went first.
      await tell();
    },
  };
}
