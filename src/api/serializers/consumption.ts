import { createHash } from 'node:crypto';
import type { Timeframe } from '../../domain/timeframes.ts';
import { periodOf } from '../../domain/usage.ts';
import type { Consumer, StorageSum, UsageSum } from '../../store/consumption.ts';
import type { Consumed } from '../consumption-metrics.ts';
import { timestamp } from './timestamp.ts';

export interface ConsumptionHistory {
  readonly frames: readonly Timeframe[];
  readonly used: readonly UsageSum[];
  readonly stored: readonly StorageSum[];
  readonly plan: string;
  readonly now: Date;
}

/** Fields that every timeframe has. */
interface FrameBounds {
  readonly timeframe_start: string;
  readonly timeframe_end: string;
}

const keyOf = (id: string, start: Date): string => `${id} ${start.getTime()}`;

/**
 * Gives the periods of a consumer, oldest first, with the timeframes in which it was there. A period is a calendar month;
 * whole days and hours are in one alone.
 *
 * @param show what is told of a timeframe beside its bounds
 */
export function consumptionPeriods<Shown>(
  { frames, used, stored, plan, now }: ConsumptionHistory,
  show: (consumed: Consumed) => Shown,
) {
  const usedIn = new Map(used.map((sum) => [keyOf(sum.id, sum.start), sum]));
  const storedIn = Map.groupBy(stored, (sum) => keyOf(sum.id, sum.start));
  return ({ id, project_id, created_at, deleted_at }: Consumer) => {
    const lived = frames.filter(({ start, end }) => end > created_at && (deleted_at === null || start <= deleted_at));
    const periods = Map.groupBy(lived, ({ start }) => periodOf(start).start.getTime());
    return Array.from(periods, ([at, inPeriod]) => {
      const { start, end } = periodOf(new Date(at));
      return {
        period_id: periodId(project_id, start),
        period_plan: plan,
        period_start: timestamp(start),
        period_end: end <= now ? timestamp(end) : undefined,
        consumption: inPeriod.map((frame): FrameBounds & Shown => {
          const key = keyOf(id, frame.start);
          const kinds = new Map(storedIn.get(key)?.map((sum) => [sum.kind, sum]));
          return {
            timeframe_start: timestamp(frame.start),
            timeframe_end: timestamp(frame.end),
            ...show({ used: usedIn.get(key), stored: kinds }),
          };
        }),
      };
    });
  };
}

/** Nothing is kept of a period: its id is reckoned, and stays the same. */
function periodId(project_id: string, start: Date): string {
  const hex = createHash('sha256').update(`${project_id} ${start.toISOString()}`).digest('hex');
  const variant = ((Number.parseInt(hex[16]!, 16) & 0x3) | 0x8).toString(16);
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-8${hex.slice(13, 16)}-${variant}${hex.slice(17, 20)}-${hex.slice(20, 32)}`;
}
