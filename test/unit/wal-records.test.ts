import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { formatLsn } from '../../src/domain/lsn.ts';
import { findLsnCut, findTimeCut } from '../../src/postgres/wal/cuts.ts';
import { checkSegment, segmentHeader } from '../../src/postgres/wal/pages.ts';
import { readRecords, type WalRecord } from '../../src/postgres/wal/records.ts';
import type { LogEnd } from '../../src/postgres/wal/segments.ts';
import { seededRandom, testSeed } from '../support/random.ts';
import { SYSTEM_IDENTIFIER, type WrittenLog, writeLog } from '../support/write-wal.ts';

const MB = 1024 * 1024;
const END = 'FFFFFFFF/FFFFFFFF';
const T0 = 1_790_000_000_000_000n;

async function readAll(log: WrittenLog, from = log.start, until = END): Promise<{ records: WalRecord[]; end: LogEnd }> {
  const records: WalRecord[] = [];
  const reading = readRecords(log, formatLsn(from), until);
  for (;;) {
    const { value, done } = await reading.next();
    if (done) return { records, end: value };
    records.push(value);
  }
}

const places = (records: readonly { start: bigint; end: bigint }[]): string[] =>
  records.map(({ start, end }) => `${formatLsn(start)} ${formatLsn(end)}`);

describe('the first page of a segment', () => {
  const log = writeLog([{ bytes: 100 }]);
  const [name] = log.names as [string];
  const bytes = () => Buffer.from(log.contents.get(name)!);
  const expected = { systemIdentifier: SYSTEM_IDENTIFIER, wal_segment_bytes: MB };

  test('says cluster, place, size and version', () => {
    assert.deepEqual(segmentHeader(bytes()), {
      systemIdentifier: SYSTEM_IDENTIFIER,
      pgTimeline: 1,
      pageAddress: log.start,
      walSegmentBytes: MB,
      magic: 0xd116,
    });
    checkSegment(name, bytes(), expected);
  });

  const refused: [string, (bytes: Buffer) => Buffer | undefined, RegExp][] = [
    ['of zeros', (all) => all.fill(0), /begins with 0x0000/],
    ['of a version that is not known', (all) => void all.writeUInt16LE(0xd120, 0), /0xD120/],
    ['of another cluster', (all) => void all.writeBigUInt64LE(7n, 24), /is of the cluster 7/],
    ['of another place', (all) => void all.writeBigUInt64LE(0n, 8), /holds the log from 0\/0/],
    ['of a later timeline', (all) => void all.writeUInt32LE(2, 4), /timeline 2/],
    ['of another size', (all) => void all.writeUInt32LE(16 * MB, 32), /says 16777216/],
    ['with pages of another size', (all) => void all.writeUInt32LE(4096, 36), /pages of 4096/],
    ['that is no first page', (all) => void all.writeUInt16LE(0, 2), /not its first/],
    ['that was cut off', (all) => all.subarray(0, 5000), /has 5000 bytes/],
    ['that is next to nothing', (all) => all.subarray(0, 20), /has no header/],
  ];
  for (const [what, change, message] of refused) {
    test(`${what} is refused`, () => {
      const changed = bytes();
      assert.throws(() => checkSegment(name, change(changed) ?? changed, expected), message);
    });
  }

  test('goes under one name only', () => {
    for (const wrong of [
      '00000001000000000000000',
      '000000010000000000001000',
      `${name}.partial`,
      name.toLowerCase(),
    ]) {
      if (wrong !== name) assert.throws(() => checkSegment(wrong, bytes(), expected), /no name of a log segment/);
    }
  });
});

describe('records', () => {
  const seed = testSeed();
  test(`of any length lie where they were written (COPPICE_TEST_SEED=${seed})`, async () => {
    const random = seededRandom(seed);
    const lengths = Array.from({ length: 400 }, () => {
      const kind = random();
      return 24 + Math.floor(random() * (kind < 0.7 ? 200 : kind < 0.95 ? 20_000 : 2_500_000));
    });
    const log = writeLog(lengths.map((bytes) => ({ bytes })));
    const { records, end } = await readAll(log);
    assert.deepEqual(places(records), places(log.written));
    assert.equal(end.why, 'zeros');
    for (let round = 0; round < 30; round++) {
      const from = log.start + BigInt(Math.floor(random() * Number(log.written.at(-1)!.end - log.start)));
      const found = await readAll(log, from);
      assert.deepEqual(places(found.records), places(log.written.filter(({ start }) => start >= from)));
    }
  });

  test('that end with their page end at the boundary, and the next starts behind the header', async () => {
    const log = writeLog([{ bytes: 8192 - 40 }, { bytes: 8192 - 24 }, { bytes: 50 }]);
    assert.deepEqual(places((await readAll(log)).records), [
      '0/1000028 0/1002000',
      '0/1002018 0/1004000',
      '0/1004018 0/1004050',
    ]);
  });

  test('are read up to the position given, whether or not more is written', async () => {
    const log = writeLog([{ bytes: 100 }, { bytes: 20_000 }, { bytes: 100 }]);
    for (const { start, end } of log.written) {
      const before = log.written.filter((record) => record.end <= start);
      assert.deepEqual(places((await readAll(log, log.start, formatLsn(end - 1n))).records), places(before));
      assert.equal((await readAll(log, log.start, formatLsn(end))).records.length, before.length + 1);
    }
  });

  test('of a segment switch end with their segment', async () => {
    const log = writeLog([{ bytes: 100 }, { bytes: 24, rmgr: 0, info: 0x40 }, { bytes: 100 }]);
    const { records } = await readAll(log);
    assert.equal(formatLsn(records[1]!.end), '0/1100000');
    assert.deepEqual(places(records), places(log.written));
    // The position lies in the zeros behind it.
    assert.deepEqual(places((await readAll(log, log.start + 500_000n)).records), places(log.written.slice(2)));
  });

  test('that a crash cut off are left out where the server wrote on behind them', async () => {
    const log = writeLog([{ bytes: 100 }, { bytes: 20_000, abandoned: true }, { bytes: 100 }]);
    assert.equal(log.written.length, 2);
    assert.deepEqual(places((await readAll(log)).records), places(log.written));
  });

  test('end at the first that is damaged, and are never taken for whole', async () => {
    const log = writeLog(Array.from({ length: 300 }, (_, number) => ({ bytes: 24 + number * 97 })));
    const random = seededRandom(seed);
    for (let round = 0; round < 40; round++) {
      const { start, end } = log.written[Math.floor(random() * log.written.length)]!;
      const at = start + BigInt(Math.floor(random() * Number(end - start)));
      const damaged = log.flipped(at, 1 << Math.floor(random() * 8));
      const { records } = await readAll(damaged);
      // What pads a record, or stands in the reserved bytes of a page's header, is nobody's.
      const before = places(log.written.filter((record) => record.end <= at));
      assert.deepEqual(places(records).slice(0, before.length), before);
      assert.ok([before.length, log.written.length].includes(records.length), `${records.length}: ${formatLsn(at)}`);
    }
  });

  test('of another cluster end the log', async () => {
    const log = writeLog([{ bytes: 1_500_000 }, { bytes: 100 }]);
    log.contents.get(log.names[1]!)!.writeBigUInt64LE(7n, 24);
    const { records, end } = await readAll(log);
    assert.equal(records.length, 0);
    assert.match(end.reason, /of the cluster 7/);
  });

  test('are not looked for across a gap', async () => {
    const log = writeLog([{ bytes: 2_500_000 }, { bytes: 100 }]);
    await assert.rejects(readAll({ ...log, names: [log.names[0]!, log.names[2]!] }), /the log has a gap/);
  });
});

describe('a cut', () => {
  const seed = testSeed();
  const at = (seconds: number) => T0 + BigInt(seconds) * 1_000_000n;
  const commit = (seconds: number, kind = 0x00) => ({ rmgr: 1, info: kind, time_us: at(seconds) });

  test('at a position holds every record that starts before it, and knows the last commit', async () => {
    const log = writeLog([{ bytes: 100 }, commit(1), { bytes: 3_000_000 }, commit(2, 0x20), { bytes: 60 }]);
    const { written } = log;
    const cut = (position: bigint) => findLsnCut(log, formatLsn(position), formatLsn(written.at(-1)!.end));
    assert.equal((await cut(written[1]!.start)).lsn, formatLsn(written[0]!.end));
    assert.equal((await cut(written[1]!.start)).timestamp_us, undefined);
    for (const position of [written[2]!.start + 1n, written[2]!.end, written[3]!.start]) {
      assert.deepEqual(await cut(position), {
        lsn: formatLsn(written[2]!.end),
        timestamp: new Date(Number(at(1) / 1000n)),
        timestamp_us: at(1),
      });
    }
    assert.equal((await cut(written[4]!.end)).timestamp_us, at(1));
    await assert.rejects(cut(log.start), /no record before/);
  });

  test('at a time comes before the first end of a transaction that is later, an abort too', async () => {
    const log = writeLog([
      commit(1),
      commit(3, 0x30),
      commit(2),
      { bytes: 200 },
      commit(7, 0x20),
      commit(5),
      commit(9, 0x40),
    ]);
    const until = formatLsn(log.written.at(-1)!.end);
    const found = async (time: bigint) => {
      const cut = await findTimeCut(log, time, until);
      return cut && log.written.findIndex(({ end }) => formatLsn(end) === cut.lsn);
    };
    assert.equal(await found(at(1) - 1n), undefined);
    assert.equal(await found(at(1)), 0);
    assert.equal(await found(at(3) - 1n), 0, 'the commit of 2 lies behind the later one of 3');
    assert.equal(await found(at(3)), 2);
    assert.equal(await found(at(6)), 2, 'the abort of 7 ends it before the commit of 5');
    assert.equal(await found(at(8)), 5);
    assert.equal(await found(at(60)), 5);
    const cut = await findTimeCut(log, new Date(Number(at(3) / 1000n)), until);
    assert.equal(cut?.timestamp_us, at(2));
  });

  /** Whether the asked time passed between the commit that a cut ends with and the next one. */
  const assertPassed = async (log: WrittenLog, clock: readonly number[], asked: number) => {
    const commits = log.written.filter((_, index) => index % 2 === 0);
    const cut = await findTimeCut(log, at(asked), formatLsn(log.written.at(-1)!.end));
    const found = cut ? commits.findIndex(({ end }) => formatLsn(end) === cut.lsn) : -1;
    const before = found < 0 || clock[found]! <= asked;
    const behind = found === clock.length - 1 || clock[found + 1]! > asked;
    assert.ok(before && behind, `asked ${asked}, found ${found}: ${clock.slice(Math.max(0, found), found + 2)}`);
  };
  /** A segment for each commit, or for several. */
  const logOf = (clock: readonly number[], more = () => false) =>
    writeLog(
      clock.flatMap((seconds) => [commit(seconds), more() ? { bytes: 200 } : { rmgr: 0, info: 0x40, bytes: 24 }]),
    );

  test('at a time that a clock passed again after it was set back is one of those places', async () => {
    const clock = Array.from({ length: 80 }, (_, minute) => (minute < 40 ? minute : minute - 24) * 60);
    for (const asked of [...clock, 959, 961, 1441]) await assertPassed(logOf(clock), clock, asked);
  });

  test(`at a time is one of those of a clock that is set back at random (COPPICE_TEST_SEED=${seed})`, async () => {
    const random = seededRandom(seed);
    for (let round = 0; round < 10; round++) {
      const clock: number[] = [];
      for (let now = 36_000; clock.length < 120; now += 1 + Math.floor(random() * [1, 30, 120][round % 3]!)) {
        if (random() < 0.03) now -= Math.floor(random() * 3600);
        clock.push(now);
      }
      const log = logOf(clock, () => random() < 0.5);
      for (let asking = 0; asking < 50; asking++) {
        await assertPassed(log, clock, clock[Math.floor(random() * clock.length)]! + (asking % 3));
      }
    }
  });

  test('fails rather than losing what lies behind damage', async () => {
    const log = writeLog([commit(1), { bytes: 900_000 }, commit(2), { bytes: 900_000 }, commit(3)]);
    const end = formatLsn(log.written.at(-1)!.end);
    const damaged = log.flipped(log.written[1]!.start + 50_000n, 4);
    for (const until of [end, formatLsn(log.start + BigInt(log.names.length * MB))]) {
      await assert.rejects(findTimeCut(damaged, at(2), until), /cannot be read from/);
      await assert.rejects(findLsnCut(damaged, formatLsn(log.written[2]!.end), until), /cannot be read from/);
      assert.equal((await findLsnCut(damaged, formatLsn(log.written[0]!.end), until)).timestamp_us, at(1));
    }
    await assert.rejects(findTimeCut({ ...log, names: log.names.slice(0, 1) }, at(3), end), /cannot be read from/);
  });

  test('is found where nothing says how far the log is written', async () => {
    const log = writeLog([commit(1), commit(2), { bytes: 300_000, torn: true }]);
    const until = formatLsn(log.start + BigInt(log.names.length * MB));
    assert.equal((await findTimeCut(log, at(5), until))?.timestamp_us, at(2));
    assert.equal((await findLsnCut(log, until, until)).lsn, formatLsn(log.written[1]!.end));
  });
});
