import type { Log } from '../watch/log-fields.ts';

export interface Loop {
  /** Ends after the running round. */
  stop(): Promise<void>;
}

/** Runs `round` again and again, `interval_ms` after the end of the last. A round that throws is reported, and the loop goes on. */
export function startLoop(
  { name, interval_ms, logger }: { name: string; interval_ms: number; logger: Log },
  round: () => Promise<void>,
): Loop {
  let stopped = false;
  let timer: NodeJS.Timeout | undefined;
  let running: Promise<void> = Promise.resolve();
  const schedule = () => {
    timer = setTimeout(() => {
      running = round()
        .catch((error) => logger.error({ action: name, err: error }, 'a chore failed and will run again'))
        .finally(() => {
          if (!stopped) schedule();
        });
    }, interval_ms);
    timer.unref();
  };
  schedule();
  return {
    stop: () => {
      stopped = true;
      clearTimeout(timer);
      return running;
    },
  };
}
