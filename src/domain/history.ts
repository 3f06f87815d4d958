import type { Lsn } from './lsn.ts';

/**
 * A point of a timeline's history: every record that starts before `lsn` is in it, and `timestamp` is the time of its
 * last commit, or of the moment for which it was asked when nothing was committed since.
 */
export interface HistoryPoint {
  readonly lsn: Lsn;
  readonly timestamp: Date;
}
