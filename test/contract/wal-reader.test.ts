import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { formatLsn } from '../../src/domain/lsn.ts';
import { readControlFile } from '../../src/postgres/control-file.ts';
import { findLsnCut, findTimeCut } from '../../src/postgres/wal/cuts.ts';
import { checkSegment, segmentHeader } from '../../src/postgres/wal/pages.ts';
import { readRecords, type WalRecord } from '../../src/postgres/wal/records.ts';
import { type Cluster, MAJORS, type Nursery, openNursery, withServer } from '../support/postgres.ts';
import { seededRandom, testSeed } from '../support/random.ts';
import { type Inspected, inspectLog, isCommit, lastBefore } from '../support/wal-inspect.ts';
import {
  insertPosition,
  runWorkload,
  type Seen,
  type SegmentsOfDirectory,
  segmentsOf,
  WORKLOAD_SETTINGS,
} from '../support/wal-workload.ts';

const LSN_CUTS = 100;
const TIME_CUTS = 30;

let nursery: Nursery;
before(async () => {
  nursery = await openNursery();
});
after(() => nursery[Symbol.asyncDispose]());

async function collect(records: AsyncIterable<WalRecord>): Promise<WalRecord[]> {
  const found: WalRecord[] = [];
  for await (const record of records) found.push(record);
  return found;
}

/** A difference of lists of this length is shown where it begins; all of it takes gigabytes. */
function assertSame(found: readonly string[], expected: readonly string[]): void {
  const at = Array.from(expected.keys()).find((index) => found[index] !== expected[index]) ?? expected.length;
  const around = (list: readonly string[]) => list.slice(Math.max(0, at - 2), at + 2);
  assert.deepEqual(around(found), around(expected));
  assert.equal(found.length, expected.length);
}

for (const major of MAJORS) {
  const seed = testSeed();
  describe(`the log of ${major} under a random load (COPPICE_TEST_SEED=${seed})`, () => {
    const random = seededRandom(seed + major);
    const between = (low: bigint, high: bigint): bigint => low + BigInt(Math.floor(random() * Number(high - low)));
    let cluster: Cluster;
    let seen: Seen[];
    /** What the server itself reads, between two positions. */
    let inspected: Inspected[];
    let start: bigint;
    let until: bigint;
    let wal: SegmentsOfDirectory;

    before(async () => {
      cluster = await nursery.plant(major);
      // Twice, so that there is a shutdown and a start in it.
      seen = await withServer(cluster, WORKLOAD_SETTINGS, async (open) => {
        await using session = await open('postgres');
        start = await insertPosition(session);
        return runWorkload(open, random, { sessions: 3, steps: 60 });
      });
      await withServer(cluster, WORKLOAD_SETTINGS, async (open) => {
        await using session = await open('postgres');
        seen.push(...(await runWorkload(open, random, { sessions: 3, steps: 60 })));
        await session.query('CHECKPOINT');
        ({ records: inspected, until } = await inspectLog(session, start));
        // The server runs on, and so does its log.
        wal = await segmentsOf(cluster.path, start);
      });
      assert.ok(inspected.length > 5000, `${inspected.length} records`);
      assert.ok(wal.names.length > 10, `${wal.names.length} segments`);
    });

    test('has the records that the server reads in it, each with its place and transaction', async () => {
      const records = await collect(readRecords(wal, formatLsn(start), formatLsn(until)));
      const shown = ({ start, end, rmgr, xid }: WalRecord | Inspected) => `${start} ${end} ${rmgr} ${xid}`;
      assertSame(records.map(shown), inspected.map(shown));
      const times = (list: readonly (WalRecord | Inspected)[]) =>
        list.flatMap(({ start, commit }) => (commit ? [`${start} ${commit.kind} ${commit.timestamp_us}`] : []));
      assertSame(times(records), times(inspected));
      for (const kind of ['commit', 'abort', 'commit_prepared', 'abort_prepared']) {
        assert.ok(
          inspected.some(({ commit }) => commit?.kind === kind),
          `no ${kind}`,
        );
      }
      assert.ok(
        inspected.some(({ start, end }) => end - start > 2n * 1024n * 1024n),
        'no record of several segments',
      );
    });

    test('is read from any position on', async () => {
      for (let round = 0; round < 40; round++) {
        const from = between(start, until);
        const expected = inspected.find((record) => record.start >= from);
        const { value } = await readRecords(wal, formatLsn(from), formatLsn(until)).next();
        const read = 'why' in value ? value.why : value.start;
        assert.equal(read, expected?.start ?? 'reached', `from ${formatLsn(from)}`);
      }
    });

    test('has the end of each transaction where its session saw it', async () => {
      const records = await collect(readRecords(wal, formatLsn(start), formatLsn(until)));
      for (const { kind, xid, after, before } of seen) {
        const ends = records.filter(({ start, end }) => start >= after && end <= before);
        const own = ends.filter(
          (record) => record.commit?.kind === kind && (kind.endsWith('prepared') || record.xid === xid),
        );
        assert.equal(own.length >= 1, true, `${kind} of ${xid} between ${formatLsn(after)} and ${formatLsn(before)}`);
      }
    });

    test('is cut at any position behind the last record that starts before it', async () => {
      for (let round = 0; round < LSN_CUTS; round++) {
        const { start: place, end } = inspected[Math.floor(random() * inspected.length)]!;
        const asked = [between(start + 1n, until), place, place + 1n, end, end + 1n][round % 5]!;
        if (asked <= start) continue;
        const cut = await findLsnCut(wal, formatLsn(asked), formatLsn(until));
        const last = lastBefore(inspected, asked);
        assert.equal(cut.lsn, formatLsn(last!.end), `asked ${formatLsn(asked)}`);
        const commit = lastBefore(inspected.filter(isCommit), asked);
        if (commit) assert.equal(cut.timestamp_us, commit.commit!.timestamp_us, `asked ${formatLsn(asked)}`);
      }
    });

    test('is cut at any time before the first end of a transaction that is later', async () => {
      const ends = inspected.filter(({ commit }) => commit);
      for (let round = 0; round < TIME_CUTS; round++) {
        const near = ends[Math.floor(random() * ends.length)]!.commit!.timestamp_us;
        const asked = near + [0n, -1n, 1n, -1000n, 1500n, 20_000n][round % 6]!;
        const later = ends.find(({ commit }) => commit!.timestamp_us > asked);
        const last = lastBefore(inspected.filter(isCommit), later?.start ?? until);
        const cut = await findTimeCut(wal, asked, formatLsn(until));
        // What lies before the load is not among what was inspected.
        if (last)
          assert.deepEqual(
            [cut?.lsn, cut?.timestamp_us],
            [formatLsn(last.end), last.commit!.timestamp_us],
            `asked ${asked}`,
          );
      }
      const last = inspected.findLast(isCommit)!;
      const cut = await findTimeCut(wal, new Date(Date.now() + 3_600_000), formatLsn(until));
      assert.deepEqual([cut?.lsn, cut?.timestamp_us], [formatLsn(last.end), last.commit!.timestamp_us]);
      assert.equal(await findTimeCut(wal, new Date('2001-01-01T00:00:00Z'), formatLsn(until)), undefined);
    });

    test('a cut reads few segments of many', async () => {
      const last = inspected.findLast(isCommit)!;
      const without = wal.reads.length;
      await findLsnCut(wal, formatLsn(last.end), formatLsn(until));
      assert.ok(wal.reads.length - without <= 3, `${wal.reads.slice(without)}`);
    });

    test('consists of segments that are what their names say, and ends with the shutdown', async () => {
      const { systemIdentifier, checkpointLsn } = await readControlFile(cluster.path);
      const all = await segmentsOf(cluster.path, start);
      for (const name of all.names) {
        const bytes = await all.read(name);
        if (bytes.readUInt16LE(0) === 0) continue; // made ahead
        checkSegment(name, bytes, { systemIdentifier, wal_segment_bytes: all.wal_segment_bytes });
        assert.equal(segmentHeader(bytes).systemIdentifier, systemIdentifier);
      }
      const end = formatLsn(
        segmentHeader(await all.read(all.names[0]!)).pageAddress + BigInt(all.names.length) * 1024n * 1024n,
      );
      const records = readRecords(all, formatLsn(until), end);
      const rest = await collect(records);
      assert.equal(formatLsn(rest.at(-1)!.start), checkpointLsn);
    });
  });
}
