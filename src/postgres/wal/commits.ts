/** How a transaction ended, and when. */
export interface Commit {
  readonly kind: 'commit' | 'abort' | 'commit_prepared' | 'abort_prepared';
  /** To the millisecond, rounded down. */
  readonly timestamp: Date;
  /** Microseconds since 1970, as exact as Postgres has it. */
  readonly timestamp_us: bigint;
}

/** `RM_XACT_ID` */
const TRANSACTIONS = 1;
/** `XLOG_XACT_OPMASK` and what it shows. */
const OPERATION_MASK = 0x70;
const KINDS: Readonly<Record<number, Commit['kind']>> = {
  0: 'commit',
  32: 'abort',
  48: 'commit_prepared',
  64: 'abort_prepared',
};

/** What may stand between a record's header and its main data: their marks, and how long they are with it. */
const DATA_SHORT = 255;
const DATA_LONG = 254;
const SKIPPED: Readonly<Record<number, number>> = {
  253: 1 + 2, // the origin of a replicated transaction
  252: 1 + 4, // the transaction that a subtransaction is of
};
const RECORD_HEADER_BYTES = 24;

/** The first bytes of a record that `commitOf` needs: the headers above, a long data header, and a time. */
export const COMMIT_BYTES = RECORD_HEADER_BYTES + 3 + 5 + 5 + 8;

/** From 1970 to 2000, where Postgres counts from. */
const POSTGRES_EPOCH_US = 946_684_800_000_000n;

/**
 * The end of a transaction that a record tells of; undefined for every other record.
 * @param bytes the record's, at least its first COMMIT_BYTES or all of it
 */
export function commitOf(rmgr: number, info: number, bytes: Buffer): Commit | undefined {
  const kind = rmgr === TRANSACTIONS ? KINDS[info & OPERATION_MASK] : undefined;
  if (!kind) return undefined;
  let at = RECORD_HEADER_BYTES;
  while (at < bytes.length) {
    const mark = bytes[at] as number;
    if (mark === DATA_SHORT || mark === DATA_LONG) {
      // `xl_xact_commit` and `xl_xact_abort` begin with the time.
      const data = at + (mark === DATA_SHORT ? 2 : 5);
      if (data + 8 > bytes.length) return undefined;
      const timestamp_us = bytes.readBigInt64LE(data) + POSTGRES_EPOCH_US;
      return { kind, timestamp: dateOf(timestamp_us), timestamp_us };
    }
    const skipped = SKIPPED[mark];
    if (!skipped) return undefined;
    at += skipped;
  }
  return undefined;
}

/** To the millisecond, rounded down. */
function dateOf(timestamp_us: bigint): Date {
  const below = ((timestamp_us % 1000n) + 1000n) % 1000n;
  return new Date(Number((timestamp_us - below) / 1000n));
}
