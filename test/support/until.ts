import { setTimeout as delay } from 'node:timers/promises';

/** Waits for a condition, looking every few milliseconds; fails by name when it does not come true in time. */
export async function until(
  condition: () => boolean | Promise<boolean>,
  { what, timeout_ms = 30_000, interval_ms = 20 }: { what: string; timeout_ms?: number; interval_ms?: number },
): Promise<void> {
  const deadline = Date.now() + timeout_ms;
  while (!(await condition())) {
    if (Date.now() > deadline) throw new Error(`waited ${timeout_ms} ms in vain for ${what}`);
    await delay(interval_ms);
  }
}
