import type { Log } from '../watch/log-fields.ts';

/** One that found nothing to watch comes again after so long, unless something is heard before. */
const REST_MS = 30_000;

export interface Loop {
  /** Something changed: a loop that rests is back in its interval. */
  hear(): void;
  /** Ends after the running round. */
  stop(): Promise<void>;
}

export interface LoopOptions {
  readonly name: string;
  readonly interval_ms: number;
  /** Half a minute when it is not given. */
  readonly rest_ms?: number;
  readonly logger: Log;
}

/**
 * Runs `round` again and again, `interval_ms` after the end of the last. A round that throws is reported, and the loop goes
 * on. One that ends with false found nothing that could need it: the loop rests until `hear` is called, at most `rest_ms`.
 */
export function startLoop(
  { name, interval_ms, rest_ms = REST_MS, logger }: LoopOptions,
  round: () => Promise<unknown>,
): Loop {
  let stopped = false;
  let timer: NodeJS.Timeout | undefined;
  let running: Promise<unknown> = Promise.resolve();
  let resting = false;
  let heard = false;
  const run = () => {
    heard = false;
    running = round()
      .catch((error) => logger.error({ action: name, err: error }, 'a chore failed and will run again'))
      .then((watched) => {
        // What was heard while it looked may not be in what it saw.
        resting = watched === false && !heard && interval_ms < rest_ms;
        if (!stopped) schedule(resting ? rest_ms : interval_ms);
      });
  };
  const schedule = (after_ms: number) => {
    timer = setTimeout(run, after_ms);
    timer.unref();
  };
  schedule(interval_ms);
  return {
    hear: () => {
      heard = true;
      if (!resting || stopped) return;
      resting = false;
      clearTimeout(timer);
      schedule(interval_ms);
    },
    stop: async () => {
      stopped = true;
      clearTimeout(timer);
      await running;
    },
  };
}
