import { periodOf } from './usage.ts';

/** Hours, days and months in UTC, whose length no change of clocks alters. */

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

export const GRANULARITIES = ['hourly', 'daily', 'monthly'] as const;
export type Granularity = (typeof GRANULARITIES)[number];

export interface Timeframe {
  readonly start: Date;
  readonly end: Date;
}

/** Nobody is told of a time before. */
const EARLIEST = new Date('2024-03-01T00:00:00Z');

/** The timeframe that a moment is in. */
function timeframeOf(moment: Date, granularity: Granularity): Timeframe {
  if (granularity === 'monthly') return periodOf(moment);
  const length_ms = granularity === 'hourly' ? HOUR_MS : DAY_MS;
  const start = Math.floor(moment.getTime() / length_ms) * length_ms;
  return { start: new Date(start), end: new Date(start + length_ms) };
}

/** How far back each granularity reaches from `now`. */
function earliest(granularity: Granularity, now: Date): Date {
  const { start } = timeframeOf(now, granularity);
  if (granularity === 'hourly') return new Date(start.getTime() - 168 * HOUR_MS);
  if (granularity === 'daily') return new Date(start.getTime() - 60 * DAY_MS);
  return new Date(Date.UTC(start.getUTCFullYear() - 1, start.getUTCMonth()));
}

/**
 * The timeframes from `from` to `to`, both rounded down, oldest first; what has not begun is left out.
 *
 * @returns undefined for a range that goes back further than the granularity does, or backwards
 */
export function timeframesBetween(from: Date, to: Date, granularity: Granularity, now: Date): Timeframe[] | undefined {
  const first = timeframeOf(from, granularity);
  const { start: end } = timeframeOf(to, granularity);
  if (first.start < EARLIEST || first.start < earliest(granularity, now) || end < first.start) return undefined;
  const frames: Timeframe[] = [];
  for (let frame = first; frame.start < end && frame.start <= now; frame = timeframeOf(frame.end, granularity)) {
    frames.push(frame);
  }
  return frames;
}
