import { crc32c } from '../../src/postgres/crc32c.ts';
import { segmentOfName } from '../../src/postgres/wal/pages.ts';
import type { WalSegments } from '../../src/postgres/wal/segments.ts';
import { walSegmentName } from '../../src/postgres/wal-segment.ts';

/** A record to be written: so long in all, or one that ends a transaction at a time (microseconds since 1970). */
export interface RecordToWrite {
  readonly bytes?: number;
  readonly rmgr?: number;
  readonly info?: number;
  readonly time_us?: bigint;
  /** Only its first page is written; the server died, and went on with the next page. */
  readonly abandoned?: boolean;
  /** Its second half is not written, and nothing behind it. */
  readonly torn?: boolean;
}

/** Segments in memory, as Postgres 17 writes them, and where the whole records lie in them. */
export interface WrittenLog extends WalSegments {
  readonly start: bigint;
  readonly contents: ReadonlyMap<string, Buffer>;
  readonly written: readonly { readonly start: bigint; readonly end: bigint }[];
  /** A copy with bits of one byte turned. */
  flipped(at: bigint, bits: number): WrittenLog;
}

export const SYSTEM_IDENTIFIER = 7_559_000_000_000_000_001n;
const SEGMENT = 1024 * 1024;
const PAGE = 8192;
const START = 0x100_0000;
const EPOCH_US = 946_684_800_000_000n;

/** Written from the format's description and not with the reader's code: byte positions only, in one big buffer. */
export function writeLog(records: readonly RecordToWrite[]): WrittenLog {
  const bytes = records.reduce((sum, { bytes = 64 }) => sum + bytes + PAGE, 0);
  const switches = records.filter(({ rmgr, info }) => rmgr === 0 && info === 0x40).length;
  const all = Buffer.alloc(Math.ceil((bytes * 1.01) / SEGMENT + switches) * SEGMENT);
  const written: { start: bigint; end: bigint }[] = [];
  let at = 0;
  let previous = 0;
  let overwrites = false;
  for (const wanted of records) {
    if (at % PAGE === 0) at += writeHeader(all, at, 0, overwrites);
    overwrites = false;
    const start = at;
    const record = encode(wanted, previous);
    const limit = wanted.abandoned ? PAGE - (at % PAGE) : wanted.torn ? record.length >> 1 : record.length;
    for (let got = 0; got < limit; ) {
      if (at % PAGE === 0) at += writeHeader(all, at, record.length - got, false);
      const part = Math.min(limit - got, PAGE - (at % PAGE));
      record.copy(all, at, got, got + part);
      at += part;
      got += part;
    }
    if (wanted.torn) break;
    if (wanted.abandoned) {
      overwrites = true;
      continue;
    }
    at = Math.ceil(at / 8) * 8;
    if (wanted.rmgr === 0 && wanted.info === 0x40) at = Math.ceil(at / SEGMENT) * SEGMENT;
    written.push({ start: BigInt(START + start), end: BigInt(START + at) });
    previous = START + start;
  }
  return logOf(all.subarray(0, Math.ceil(at / SEGMENT) * SEGMENT), written);
}

function logOf(all: Buffer, written: WrittenLog['written']): WrittenLog {
  const contents = new Map<string, Buffer>();
  for (let at = 0; at < all.length; at += SEGMENT) {
    contents.set(walSegmentName(1, BigInt(START + at), SEGMENT), all.subarray(at, at + SEGMENT));
  }
  const names = [...contents.keys()];
  return {
    wal_segment_bytes: SEGMENT,
    names,
    start: segmentOfName(names[0]!, SEGMENT).start,
    contents,
    written,
    read: async (name) => contents.get(name)!,
    flipped: (at, bits) => {
      const copy = Buffer.from(all);
      copy[Number(at) - START]! ^= bits;
      return logOf(copy, written);
    },
  };
}

function writeHeader(all: Buffer, at: number, remaining: number, overwrites: boolean): number {
  const first = at % SEGMENT === 0;
  all.writeUInt16LE(0xd116, at);
  all.writeUInt16LE((remaining > 0 ? 1 : 0) | (first ? 2 : 0) | (overwrites ? 8 : 0), at + 2);
  all.writeUInt32LE(1, at + 4);
  all.writeBigUInt64LE(BigInt(START + at), at + 8);
  all.writeUInt32LE(remaining, at + 16);
  if (!first) return 24;
  all.writeBigUInt64LE(SYSTEM_IDENTIFIER, at + 24);
  all.writeUInt32LE(SEGMENT, at + 32);
  all.writeUInt32LE(PAGE, at + 36);
  return 40;
}

function encode({ bytes, rmgr = 10, info = 0, time_us }: RecordToWrite, previous: number): Buffer {
  const record = Buffer.alloc(bytes ?? 24 + 2 + 8, 0xa5);
  if (time_us !== undefined) {
    record[24] = 255;
    record[25] = 8;
    record.writeBigInt64LE(time_us - EPOCH_US, 26);
  }
  record.writeUInt32LE(record.length, 0);
  record.writeUInt32LE(700, 4);
  record.writeBigUInt64LE(BigInt(previous), 8);
  record[16] = info;
  record[17] = rmgr;
  record.writeUInt16LE(0, 18);
  record.writeUInt32LE(crc32c(Buffer.concat([record.subarray(24), record.subarray(0, 20)])), 20);
  return record;
}
