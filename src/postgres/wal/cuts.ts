import { formatLsn, type Lsn, parseLsn } from '../../domain/lsn.ts';
import type { Commit } from './commits.ts';
import { WAL_PAGE_BYTES } from './pages.ts';
import { recordsOf, type WalRecord, withoutHeader } from './records.ts';
import { type Log, type LogEnd, openLog, type WalSegments } from './segments.ts';

/** A point of a log: everything that starts before `lsn`. */
export interface Cut {
  /** The end of a record, as Postgres gives it when replay ends there. */
  readonly lsn: Lsn;
  /** Of the last commit in it, to the millisecond, rounded down; undefined where none was found near. */
  readonly timestamp?: Date;
  /** The same in microseconds since 1970: what leads back to this cut when it is asked for again. */
  readonly timestamp_us?: bigint;
}

/** The log that is searched backwards for the commit before a position, before its time is given up. */
const COMMIT_SEGMENTS_MAX = 64;
/**
 * A backend reads the clock before it waits for its place in the log, so times are only nearly ordered. This far back may
 * lie a commit that is later than the ones behind it.
 */
const DISORDER_US = 2_000_000n;
const DISORDER_SEGMENTS_MAX = 16;
const PAGE = BigInt(WAL_PAGE_BYTES);

/**
 * The point "every record that starts before `asked`", which may be any position: the end of the last such record. What
 * is behind `until` is left out: how far the log is known to be written (flushed), or the end of the last segment where
 * that is not known. Reads the segments around the point only.
 * @throws when no record of the segments starts before, or the log cannot be read up to the point, or not as far as `until` says
 */
export async function findLsnCut(wal: WalSegments, asked: Lsn, until: Lsn): Promise<Cut> {
  const log = openLog(wal);
  const known = withoutHeader(parseLsn(until), log);
  const wanted = parseLsn(asked);
  const before = wanted < known ? wanted : known;
  for (let start = lastSegmentBefore(log, before); start >= log.start; start -= log.segment_bytes) {
    const { last, commit } = await lastOfSegment(log, start, before, known);
    if (!last) continue;
    const lsn = formatLsn(last.end);
    // The point stands without its time.
    const found = commit ?? (await commitBefore(log, start, COMMIT_SEGMENTS_MAX).catch(() => undefined));
    return { lsn, ...(found?.commit && timesOf(found.commit)) };
  }
  throw new Error(`no record before ${asked} is in the log, which is there from ${formatLsn(log.start)} on`);
}

/**
 * The point that a recovery to a time stops at: before the first end of a transaction that is later than `asked`. The
 * cut is the end of the last commit before it, with that commit's time; undefined when no commit is that old. A bigint
 * is in microseconds since 1970. Where a clock was set back one time means several points; it is one of them that is found.
 * @param until as for findLsnCut
 * @throws when the log around the point cannot be read, or does not reach as far as `until` says
 */
export async function findTimeCut(
  wal: WalSegments,
  asked: Date | bigint,
  until: Lsn,
): Promise<Required<Cut> | undefined> {
  const asked_us = typeof asked === 'bigint' ? asked : BigInt(asked.getTime()) * 1000n;
  const log = openLog(wal);
  const known = withoutHeader(parseLsn(until), log);
  const from = await startOfSearch(log, asked_us, known);
  let last: WalRecord | undefined;
  const records = recordsOf(log, { from, until: known });
  for (;;) {
    const { value, done } = await records.next();
    if (done) {
      await assertReadTo(log, value, known, known);
      break;
    }
    if (!value.commit) continue;
    if (value.commit.timestamp_us > asked_us) break;
    if (isCommit(value)) last = value;
  }
  last ??= await commitBefore(log, from, log.segments);
  return last?.commit && { lsn: formatLsn(last.end), ...timesOf(last.commit) };
}

/** A segment start with no commit later than `asked` before it, as near as can be had without reading everything. */
async function startOfSearch(log: Log, asked_us: bigint, until: bigint): Promise<bigint> {
  const startOf = (index: number): bigint => log.start + BigInt(index) * log.segment_bytes;
  const timeOf = async (index: number) => firstTime(log, startOf(index), until);
  let low = 0;
  let high = until > log.start ? Math.min(log.segments, Number((until - log.start - 1n) / log.segment_bytes) + 1) : 0;
  // The first time in `low`, if any, is not later than `asked`; the first one from `high` on is.
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    let index = middle;
    let time: bigint | undefined;
    while (index < high && time === undefined) time = await timeOf(index++);
    if (time !== undefined && time <= asked_us) low = index - 1;
    else high = middle;
  }
  for (let steps = 0; low > 0 && steps < DISORDER_SEGMENTS_MAX; steps++) {
    const time = await timeOf(low);
    if (time !== undefined && time < asked_us - DISORDER_US) break;
    if (time !== undefined && time > asked_us + DISORDER_US) {
      // No disorder: the clock was set back behind it, and before that the asked time was long over.
      low++;
      break;
    }
    low--;
  }
  return startOf(low);
}

/** When the first transaction ended whose end starts in a segment. What cannot be read tells nothing here. */
async function firstTime(log: Log, start: bigint, until: bigint): Promise<bigint | undefined> {
  try {
    for await (const { commit } of recordsOf(log, { from: start, before: start + log.segment_bytes, until })) {
      if (commit) return commit.timestamp_us;
    }
  } catch {
    // Damage far from the point is no reason to fail; around it, it is met again.
  }
  return undefined;
}

interface SegmentLast {
  readonly last?: WalRecord;
  readonly commit?: WalRecord;
}

/** The last record, and the last commit, of those that start in a segment and before a position. */
async function lastOfSegment(log: Log, start: bigint, before: bigint, until: bigint): Promise<SegmentLast> {
  const end = start + log.segment_bytes;
  const target = before < end ? before : end;
  const records = recordsOf(log, { from: start, before: target, until });
  let last: WalRecord | undefined;
  let commit: WalRecord | undefined;
  for (;;) {
    const { value, done } = await records.next();
    if (done) {
      await assertReadTo(log, value, target, until);
      return { last, commit };
    }
    last = value;
    if (isCommit(value)) commit = value;
  }
}

/** The last commit that starts before a segment, in so many segments. */
async function commitBefore(log: Log, segment: bigint, segments: number): Promise<WalRecord | undefined> {
  for (let count = 1; count <= segments; count++) {
    const start = segment - BigInt(count) * log.segment_bytes;
    if (start < log.start) return undefined;
    const { commit } = await lastOfSegment(log, start, segment, log.end);
    if (commit) return commit;
  }
  return undefined;
}

/**
 * That reading ended short of `target` for no other reason than that nothing was written behind. A point that is wrong
 * because of a damaged segment would lose commits, and nobody would see it.
 */
async function assertReadTo(log: Log, end: LogEnd, target: bigint, until: bigint): Promise<void> {
  if (end.why === 'reached' || end.at >= target) return;
  const written = until < log.end || (end.why === 'absent' && until > log.end);
  if (!written && (end.why === 'absent' || !(await goesOnBehind(log, end.page)))) return;
  throw new Error(
    `the log cannot be read from ${formatLsn(end.at)} on: ${end.reason} (at the page ${formatLsn(end.page)})`,
  );
}

/** Whether a page behind the one given, in its segment or at the start of the next, was written. */
async function goesOnBehind(log: Log, page: bigint): Promise<boolean> {
  const next = page - (page % log.segment_bytes) + log.segment_bytes;
  for (let address = page + PAGE; address <= next && address < log.end; address += PAGE) {
    if (!('why' in (await log.pageAt(address)))) return true;
  }
  return false;
}

function lastSegmentBefore(log: Log, position: bigint): bigint {
  const before = position < log.end ? position : log.end;
  return before > log.start ? before - 1n - ((before - 1n) % log.segment_bytes) : log.start - 1n;
}

const isCommit = ({ commit }: WalRecord): boolean => commit?.kind === 'commit' || commit?.kind === 'commit_prepared';

const timesOf = ({ timestamp, timestamp_us }: Commit): Omit<Required<Cut>, 'lsn'> => ({
  timestamp,
  timestamp_us,
});
