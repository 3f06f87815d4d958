import { formatLsn } from '../../domain/lsn.ts';
import { walSegmentName } from '../wal-segment.ts';

/** `XLOG_BLCKSZ`. No distribution is built with another; the first page of each segment says it. */
export const WAL_PAGE_BYTES = 8192;
export const SHORT_HEADER_BYTES = 24;
export const LONG_HEADER_BYTES = 40;

/** `XLOG_PAGE_MAGIC` of the majors that we run. */
const MAJOR_OF_MAGIC: ReadonlyMap<number, number> = new Map([
  [0xd110, 15],
  [0xd113, 16],
  [0xd116, 17],
  [0xd118, 18],
]);

const FIRST_IS_CONTINUED = 0x0001;
const LONG_HEADER = 0x0002;
const FIRST_IS_OVERWRITE = 0x0008;
/** 0x0004 says that full-page images may be left out (`XLP_BKP_REMOVABLE`), which is nothing to us. */
const ALL_FLAGS = 0x000f;

/** What `pageProblem` says of a page that nobody wrote yet. */
export const NOT_WRITTEN = 'there are zeros';

const SEGMENT_NAME = /^[0-9A-F]{24}$/;
const SEGMENT_BYTES_MIN = 1024 ** 2;
const SEGMENT_BYTES_MAX = 1024 ** 3;

/** What the first page of a segment says about the whole of it. */
export interface SegmentHeader {
  readonly systemIdentifier: bigint;
  /** Postgres's own, which counts promotions; that of the page's first record. */
  readonly pgTimeline: number;
  /** Where the segment begins. */
  readonly pageAddress: bigint;
  readonly walSegmentBytes: number;
  readonly magic: number;
}

/** What every page begins with (`XLogPageHeaderData`). */
export interface PageHeader {
  readonly magic: number;
  /** The page begins with the rest of a record of an earlier page. */
  readonly continues: boolean;
  /** The record that the page before begins was never finished (a crash), and another stands here instead. */
  readonly overwrites: boolean;
  readonly pgTimeline: number;
  readonly address: bigint;
  /** How much is left of the continued record, from this page on. */
  readonly remaining_bytes: number;
  readonly header_bytes: number;
}

/**
 * @param bytes the segment's, at least its first 40
 * @throws when they are no first page of a segment of Postgres 15 to 18
 */
export function segmentHeader(bytes: Buffer): SegmentHeader {
  if (bytes.length < LONG_HEADER_BYTES) throw new Error(`a log segment of ${bytes.length} bytes has no header`);
  const { magic, header_bytes, pgTimeline, address } = pageHeader(bytes, 0);
  if (!MAJOR_OF_MAGIC.has(magic)) {
    throw new Error(`the log segment begins with ${hex(magic)}, which is none of Postgres 15 to 18`);
  }
  if (header_bytes !== LONG_HEADER_BYTES) throw new Error('the log segment begins with a page that is not its first');
  const pageBytes = bytes.readUInt32LE(36);
  if (pageBytes !== WAL_PAGE_BYTES) throw new Error(`the log segment has pages of ${pageBytes} bytes, not of 8192`);
  const walSegmentBytes = bytes.readUInt32LE(32);
  if (!isSegmentSize(walSegmentBytes)) throw new Error(`a log segment cannot have ${walSegmentBytes} bytes`);
  return { systemIdentifier: bytes.readBigUInt64LE(24), pgTimeline, pageAddress: address, walSegmentBytes, magic };
}

/**
 * Whether a whole segment is what its name says. Pages and records are not read. A lower timeline than that of the name
 * is no mistake: a promoted server's first segment begins with a copy of what was written before.
 *
 * @param size_bytes the file's; `bytes` may be no more than its first 40
 * @throws when header, address, timeline or size do not fit the name, or it is a segment of another cluster
 */
export function checkSegment(
  name: string,
  bytes: Buffer,
  expected: { readonly systemIdentifier: bigint; readonly wal_segment_bytes: number },
  size_bytes = bytes.length,
): void {
  const { wal_segment_bytes } = expected;
  const { pgTimeline, start } = segmentOfName(name, wal_segment_bytes);
  const header = segmentHeader(bytes);
  if (header.systemIdentifier !== expected.systemIdentifier) {
    throw new Error(`${name} is of the cluster ${header.systemIdentifier}, not of ${expected.systemIdentifier}`);
  }
  if (header.walSegmentBytes !== wal_segment_bytes || size_bytes !== wal_segment_bytes) {
    const said = `${size_bytes} bytes and says ${header.walSegmentBytes}`;
    throw new Error(`${name} has ${said}; segments here have ${wal_segment_bytes}`);
  }
  if (header.pageAddress !== start) {
    throw new Error(`${name} holds the log from ${formatLsn(header.pageAddress)}, not from ${formatLsn(start)}`);
  }
  if (header.pgTimeline > pgTimeline || header.pgTimeline === 0) {
    throw new Error(`${name} holds the log of Postgres timeline ${header.pgTimeline}`);
  }
}

/** Where a segment begins, by its name. Throws when it is no name of a segment of that size. */
export function segmentOfName(name: string, wal_segment_bytes: number): { pgTimeline: number; start: bigint } {
  if (!SEGMENT_NAME.test(name)) throw new Error(`"${name}" is no name of a log segment`);
  const [pgTimeline, log, segment] = [0, 8, 16].map((at) => Number.parseInt(name.slice(at, at + 8), 16));
  const start = (BigInt(log!) << 32n) + BigInt(segment!) * BigInt(wal_segment_bytes);
  if (walSegmentName(pgTimeline!, start, wal_segment_bytes) !== name) {
    throw new Error(`"${name}" is no name of a log segment of ${wal_segment_bytes} bytes`);
  }
  return { pgTimeline: pgTimeline!, start };
}

/** The header of the page at an offset, which must have room for it; nothing is checked. */
export function pageHeader(bytes: Buffer, offset: number): PageHeader {
  const info = bytes.readUInt16LE(offset + 2);
  return {
    magic: bytes.readUInt16LE(offset),
    continues: (info & FIRST_IS_CONTINUED) !== 0,
    overwrites: (info & FIRST_IS_OVERWRITE) !== 0,
    pgTimeline: bytes.readUInt32LE(offset + 4),
    address: bytes.readBigUInt64LE(offset + 8),
    remaining_bytes: bytes.readUInt32LE(offset + 16),
    header_bytes: info & LONG_HEADER ? LONG_HEADER_BYTES : SHORT_HEADER_BYTES,
  };
}

/** Why Postgres would not read the page at an offset as the one of that address; undefined when it would. */
export function pageProblem(bytes: Buffer, offset: number, address: bigint, pgTimeline: number): string | undefined {
  const header = pageHeader(bytes, offset);
  if (header.magic === 0 && header.address === 0n) return NOT_WRITTEN;
  if (!MAJOR_OF_MAGIC.has(header.magic)) return `the page begins with ${hex(header.magic)}`;
  if (bytes.readUInt16LE(offset + 2) & ~ALL_FLAGS) return 'the page has unknown flags';
  if (header.address !== address) return `the page is that of ${formatLsn(header.address)}`;
  if (header.pgTimeline > pgTimeline) return `the page is of Postgres timeline ${header.pgTimeline}`;
  const long = header.header_bytes === LONG_HEADER_BYTES;
  if (long !== (offset === 0)) return 'the page has the header of another place in its segment';
  return undefined;
}

const isSegmentSize = (bytes: number): boolean =>
  bytes >= SEGMENT_BYTES_MIN && bytes <= SEGMENT_BYTES_MAX && (bytes & (bytes - 1)) === 0;

const hex = (value: number): string => `0x${value.toString(16).toUpperCase().padStart(4, '0')}`;
