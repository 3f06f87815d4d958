import { formatLsn } from '../../domain/lsn.ts';
import { walSegmentName } from '../wal-segment.ts';
import {
  NOT_WRITTEN,
  type PageHeader,
  pageHeader,
  pageProblem,
  segmentHeader,
  segmentOfName,
  WAL_PAGE_BYTES,
} from './pages.ts';

/** A stretch of one log, as files. */
export interface WalSegments {
  readonly wal_segment_bytes: number;
  /** Ascending and contiguous, of one Postgres timeline. */
  readonly names: readonly string[];
  /** The whole of a segment. What it throws is passed on. */
  read(name: string): Promise<Buffer>;
}

/** A page of the log that has its place and a sound header. */
export interface Page {
  /** The segment's. */
  readonly bytes: Buffer;
  /** Of the page in them. */
  readonly offset: number;
  readonly address: bigint;
  readonly header: PageHeader;
}

/** Where the log cannot be read on, and why. */
export interface LogEnd {
  /** The next record would start here, behind the end of the last one. */
  readonly at: bigint;
  /** The page that was of no use. */
  readonly page: bigint;
  /** `reached`: there may be more, but no more was wanted. `absent`: the segments end. */
  readonly why: 'reached' | 'absent' | 'zeros' | 'invalid';
  readonly reason: string;
}

interface Segment {
  readonly start: bigint;
  readonly bytes: Buffer;
  /** Why nothing of it can be used. */
  readonly problem?: string;
}

/** Pages of a log by their address. Holds the segments read last. */
export interface Log {
  readonly start: bigint;
  /** Of the last segment; what is written may end before. */
  readonly end: bigint;
  readonly segment_bytes: bigint;
  /** How many there are. */
  readonly segments: number;
  /** The page that a position lies in, if it was the last one asked for: most records need no waiting. */
  heldPage(position: bigint): Page | undefined;
  /**
   * The page that a position lies in, or why it cannot be read.
   * @throws when the segment cannot be had, or its name is missing between others
   */
  pageAt(position: bigint): Promise<Page | LogEnd>;
}

/** A record crosses from one segment into the next; who reads backwards meets both again. */
const SEGMENTS_HELD = 2;
const PAGE = BigInt(WAL_PAGE_BYTES);

/** @throws when the first name is no name of a segment of that size */
export function openLog(wal: WalSegments): Log {
  const { wal_segment_bytes, names } = wal;
  const segment_bytes = BigInt(wal_segment_bytes);
  const { pgTimeline, start } = names[0] ? segmentOfName(names[0], wal_segment_bytes) : { pgTimeline: 0, start: 0n };
  const end = start + BigInt(names.length) * segment_bytes;
  const held: Segment[] = [];
  let page: Page | undefined;
  let systemIdentifier: bigint | undefined;

  const heldPage = (position: bigint): Page | undefined =>
    page && position >= page.address && position < page.address + PAGE ? page : undefined;

  const pageAt = async (position: bigint): Promise<Page | LogEnd> => {
    const known = heldPage(position);
    if (known) return known;
    const address = position - (position % PAGE);
    const unusable = (why: LogEnd['why'], reason: string): LogEnd => ({ at: position, page: address, why, reason });
    if (address >= end) return unusable('absent', `the last segment ends at ${formatLsn(end)}`);
    if (address < start) return unusable('absent', `the first segment starts at ${formatLsn(start)}`);
    const segment = await segmentAt(address - (address % segment_bytes));
    if (segment.problem) return unusable('invalid', segment.problem);
    const offset = Number(address - segment.start);
    const problem = pageProblem(segment.bytes, offset, address, pgTimeline);
    if (problem) return unusable(problem === NOT_WRITTEN ? 'zeros' : 'invalid', problem);
    const foreign = offset === 0 && foreignness(segment.bytes);
    if (foreign) return unusable('invalid', foreign);
    page = { bytes: segment.bytes, offset, address, header: pageHeader(segment.bytes, offset) };
    return page;
  };

  const segmentAt = async (from: bigint): Promise<Segment> => {
    const known = held.find((segment) => segment.start === from);
    if (known) return known;
    const name = walSegmentName(pgTimeline, from, wal_segment_bytes);
    const found = names[Number((from - start) / segment_bytes)];
    if (found !== name) throw new Error(`the log has a gap: ${found} stands where ${name} is expected`);
    const bytes = await wal.read(name);
    const problem = bytes.length === wal_segment_bytes ? undefined : `${name} has ${bytes.length} bytes`;
    const segment = { start: from, bytes, problem };
    held.unshift(segment);
    held.length = Math.min(held.length, SEGMENTS_HELD);
    return segment;
  };

  /** All segments are of one cluster and one size. */
  const foreignness = (bytes: Buffer): string | undefined => {
    try {
      const header = segmentHeader(bytes);
      if (header.walSegmentBytes !== wal_segment_bytes) return `the segment is one of ${header.walSegmentBytes} bytes`;
      systemIdentifier ??= header.systemIdentifier;
      if (header.systemIdentifier === systemIdentifier) return undefined;
      return `the segment is of the cluster ${header.systemIdentifier}, not of ${systemIdentifier}`;
    } catch (error) {
      return (error as Error).message;
    }
  };

  return { start, end, segment_bytes, segments: names.length, heldPage, pageAt };
}
