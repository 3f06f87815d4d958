import { formatLsn, type Lsn, parseLsn } from '../../domain/lsn.ts';
import { crc32c } from '../crc32c.ts';
import { COMMIT_BYTES, type Commit, commitOf } from './commits.ts';
import { LONG_HEADER_BYTES, SHORT_HEADER_BYTES, WAL_PAGE_BYTES } from './pages.ts';
import { type Log, type LogEnd, openLog, type Page, type WalSegments } from './segments.ts';

/** A record whose checksum was right. */
export interface WalRecord {
  readonly start: bigint;
  /**
   * Postgres's `EndRecPtr`: where the next record may start, so after padding; a record that ends with its page ends at
   * the boundary, and a segment switch at the end of the segment.
   */
  readonly end: bigint;
  /** The resource manager's number, such as 1 for transactions. */
  readonly rmgr: number;
  readonly info: number;
  /** 0 where a record belongs to no transaction; of a COMMIT PREPARED it is not the prepared one. */
  readonly xid: number;
  /** Of a record that ends a transaction. */
  readonly commit?: Commit;
}

const PAGE = BigInt(WAL_PAGE_BYTES);
const RECORD_HEADER_BYTES = 24;
/** Nothing longer is ever written (`XLogRecordMaxSize` is a little less). */
const RECORD_BYTES_MAX = 1024 ** 3;
/** `RM_XLOG_ID` and `XLOG_SWITCH` */
const LOG_ITSELF = 0;
const SWITCH = 0x40;

/** Which records: those that start at `from` or later but before `before`, and end at or before `until`. */
export interface Stretch {
  readonly from: bigint;
  readonly before?: bigint;
  readonly until: bigint;
}

/**
 * The records of a log in their order, as Postgres would replay them: from the first that starts at or after `from`, which
 * may be any position, up to the last that ends at or before `until`. It ends earlier where Postgres would see the end:
 * at zeros, at a wrong checksum, or behind the last segment; what the generator returns says which. Memory: two segments,
 * however long a record is.
 * @throws when a segment cannot be had, or its name is missing between others
 */
export function readRecords(wal: WalSegments, from: Lsn, until: Lsn): AsyncGenerator<WalRecord, LogEnd> {
  const log = openLog(wal);
  return recordsOf(log, { from: parseLsn(from), until: withoutHeader(parseLsn(until), log) });
}

/** The same on a log that is open already, of a position that was seen to by `withoutHeader`. */
export async function* recordsOf(log: Log, stretch: Stretch): AsyncGenerator<WalRecord, LogEnd> {
  const { from, until, before = until } = stretch;
  const first = await firstStart(log, from > log.start ? from : log.start, before < until ? before : until);
  if (typeof first !== 'bigint') return first;
  let position = first;
  let previous: bigint | undefined;
  for (;;) {
    if (position >= before || position >= until) return reached(position);
    const page = log.heldPage(position);
    const record =
      (page && recordInPage(log, page, position, { previous, until })) ??
      (await recordAt(log, position, { previous, until }));
    if ('why' in record) return record;
    previous = record.start;
    position = record.end;
    if (record.start >= before) return reached(record.start);
    if (record.start >= from) yield record;
  }
}

interface Bounds {
  /** Where the record before starts, if it was read: each names its predecessor. */
  readonly previous: bigint | undefined;
  readonly until: bigint;
}

/** The start of the first record on the page of a position, or on a later one where that holds but a piece of one. */
async function firstStart(log: Log, position: bigint, until: bigint): Promise<bigint | LogEnd> {
  for (let address = position - (position % PAGE); ; address += PAGE) {
    if (address >= until) return reached(address);
    let page = await log.pageAt(address);
    if ('why' in page && page.why === 'zeros') {
      // Zeros follow a switch, too; then the log goes on with the next segment.
      const next = address - (address % log.segment_bytes) + log.segment_bytes;
      const behind = next < until ? await log.pageAt(next) : page;
      if ('why' in behind) return page;
      page = behind;
      address = next;
    }
    if ('why' in page) return page;
    const { continues, remaining_bytes, header_bytes } = page.header;
    const first = header_bytes + (continues ? aligned(remaining_bytes) : 0);
    if (first < WAL_PAGE_BYTES) return address + BigInt(first);
  }
}

/**
 * How far a log is written, of a position as a server gives it: behind a page's header and before its first record it is
 * the end of the page before.
 */
export function withoutHeader(position: bigint, log: Pick<Log, 'segment_bytes'>): bigint {
  const header_bytes = position % log.segment_bytes < PAGE ? LONG_HEADER_BYTES : SHORT_HEADER_BYTES;
  const offset = position % PAGE;
  return offset <= BigInt(header_bytes) ? position - offset : position;
}

async function recordAt(log: Log, position: bigint, bounds: Bounds): Promise<WalRecord | LogEnd> {
  const page = await log.pageAt(position);
  if ('why' in page) return page;
  return recordInPage(log, page, position, bounds) ?? recordAcrossPages(log, page, position, bounds);
}

/** The record at a position of a page; undefined when it goes on on the next one. */
function recordInPage(log: Log, page: Page, position: bigint, bounds: Bounds): WalRecord | LogEnd | undefined {
  const offset = recordOffset(page, position);
  const start = page.address + BigInt(offset);
  if (position === page.address && page.header.continues) return invalid(start, page, 'the rest of a record is here');
  const at = page.offset + offset;
  const total = page.bytes.readUInt32LE(at);
  if (total === 0) return { at: start, page: page.address, why: 'zeros', reason: 'there are zeros' };
  if (total < RECORD_HEADER_BYTES || total > RECORD_BYTES_MAX) {
    return invalid(start, page, `a record would have ${total} bytes`);
  }
  if (offset + total > WAL_PAGE_BYTES) return undefined;
  const end = start + BigInt(aligned(total));
  if (end > bounds.until) return reached(start);
  const bytes = page.bytes.subarray(at, at + total);
  return checked(log, page, { start, end, bytes, crc: crc32c(bytes.subarray(RECORD_HEADER_BYTES)), bounds });
}

/** A record that starts on a page and ends on a later one. Only its beginning is kept: a record may have a gigabyte. */
async function recordAcrossPages(log: Log, first: Page, position: bigint, bounds: Bounds): Promise<WalRecord | LogEnd> {
  const offset = recordOffset(first, position);
  const start = first.address + BigInt(offset);
  const head = first.bytes.subarray(first.offset + offset, first.offset + WAL_PAGE_BYTES);
  const total = head.readUInt32LE(0);
  const kept = Buffer.alloc(COMMIT_BYTES);
  head.copy(kept);
  let crc = crc32c(head.subarray(RECORD_HEADER_BYTES));
  let got = head.length;
  for (let address = first.address + PAGE; ; address += PAGE) {
    if (address >= bounds.until) return reached(start);
    const page = await log.pageAt(address);
    if ('why' in page) return { ...page, at: start };
    const { continues, overwrites, header_bytes, remaining_bytes } = page.header;
    // A crash kept the rest from being written; the server went on here.
    if (overwrites) return recordAt(log, address, bounds);
    if (!continues || remaining_bytes !== total - got) return invalid(start, page, 'a record does not go on here');
    const length = Math.min(WAL_PAGE_BYTES - header_bytes, remaining_bytes);
    const from = page.offset + header_bytes;
    const part = page.bytes.subarray(from, from + length);
    if (got < kept.length) part.copy(kept, got);
    crc = crc32c(part.subarray(Math.max(0, RECORD_HEADER_BYTES - got)), crc);
    got += length;
    if (got < total) continue;
    const end = address + BigInt(header_bytes + aligned(length));
    if (end > bounds.until) return reached(start);
    const bytes = kept.subarray(0, Math.min(total, kept.length));
    return checked(log, page, { start, end, bytes, crc, bounds });
  }
}

interface Read {
  readonly start: bigint;
  readonly end: bigint;
  /** The record's first. */
  readonly bytes: Buffer;
  /** Of all behind the record's header. */
  readonly crc: number;
  readonly bounds: Bounds;
}

function checked(log: Log, page: Page, { start, end, bytes, crc, bounds }: Read): WalRecord | LogEnd {
  // The header is summed up last, without the sum itself.
  if (crc32c(bytes.subarray(0, 20), crc) !== bytes.readUInt32LE(20)) {
    return invalid(start, page, 'a record does not have the checksum it says');
  }
  const previous = bytes.readBigUInt64LE(8);
  if (bounds.previous === undefined ? previous >= start : previous !== bounds.previous) {
    return invalid(start, page, `a record follows one at ${formatLsn(previous)}`);
  }
  const info = bytes[16] as number;
  const rmgr = bytes[17] as number;
  const switches = rmgr === LOG_ITSELF && (info & 0xf0) === SWITCH;
  const over = end % log.segment_bytes;
  const record = {
    start,
    end: switches && over > 0n ? end - over + log.segment_bytes : end,
    rmgr,
    info,
    xid: bytes.readUInt32LE(4),
  };
  const commit = commitOf(rmgr, info, bytes);
  return commit ? { ...record, commit } : record;
}

/** A record whose position is a page's begins behind the page's header. */
const recordOffset = (page: Page, position: bigint): number =>
  position === page.address ? page.header.header_bytes : Number(position - page.address);

/** `MAXALIGN` */
const aligned = (bytes: number): number => (bytes + 7) & ~7;

const reached = (at: bigint): LogEnd => ({ at, page: at - (at % PAGE), why: 'reached', reason: 'no more was wanted' });

const invalid = (at: bigint, page: Page, reason: string): LogEnd => ({
  at,
  page: page.address,
  why: 'invalid',
  reason,
});
