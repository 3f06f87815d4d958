import { formatLsn, type Lsn, parseLsn } from '../domain/lsn.ts';
import type { Session } from './session.ts';
import { withoutHeader } from './wal/records.ts';

/** Where a server's log ended at a moment, all of it on disk, in segments that nobody writes to any more. */
export interface SwitchedWal {
  /** Every record that starts before it was written by then, and whatever was committed before it was asked for. */
  readonly lsn: Lsn;
  /** By the server's clock; no transaction before `lsn` was committed later. */
  readonly at: Date;
  /** Whether each page is in the log as a whole with its first change after a checkpoint. */
  readonly full_page_writes: boolean;
}

/** Flushes a running server's log up to its end, and lets it go on in another segment. */
export async function switchWal(session: Session, wal_segment_bytes: number): Promise<SwitchedWal> {
  const { rows: inserted } = await session.query('SELECT pg_current_wal_insert_lsn()::text AS lsn');
  const { rows } = await session.query(
    `SELECT pg_switch_wal()::text AS switched, clock_timestamp() AS at,
       current_setting('full_page_writes') = 'on' AS full_page_writes`,
  );
  const { at, full_page_writes } = rows[0];
  const lsn = formatLsn(withoutHeader(parseLsn(inserted[0].lsn), { segment_bytes: BigInt(wal_segment_bytes) }));
  return { lsn, at, full_page_writes };
}
