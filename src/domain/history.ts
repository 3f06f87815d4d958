import type { TimelineId } from './ids.ts';
import type { Lsn } from './lsn.ts';

/**
 * A point of a timeline's history: every record that starts before `lsn` is in it, and `timestamp` is the time of its
 * last commit, or of the moment for which it was asked when nothing was committed since.
 */
export interface HistoryPoint {
  readonly lsn: Lsn;
  readonly timestamp: Date;
}

/** What a caller asks for: a position, or a time in microseconds since 1970, as exact as Postgres notes commits. */
export type AskedPoint = { readonly lsn: Lsn } | { readonly timestamp_us: bigint };

/** What only a look at the world tells of the past. */
export interface HistoryReader {
  /**
   * The point that is meant: the end of the last record that starts before an LSN; the end of the last commit at or before
   * a time. Throws `point_outside_history` with the bounds of what can be asked for.
   */
  resolve(timelineId: TimelineId, asked: AskedPoint): Promise<HistoryPoint>;
}
