import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, rename } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { promisify } from 'node:util';
import { formatLsn, type Lsn, parseLsn } from '../../src/domain/lsn.ts';
import { readControlFile } from '../../src/postgres/control-file.ts';
import type { Distribution } from '../../src/postgres/distributions.ts';
import { copyPlainFile } from '../../src/postgres/plain-files.ts';
import { layLog, recoveryStart, replayedTo } from '../../src/postgres/recovery.ts';
import type { OpenSession } from '../../src/postgres/session.ts';
import { fillTemplate } from '../../src/postgres/template.ts';
import { findLsnCut, findTimeCut } from '../../src/postgres/wal/cuts.ts';
import { readRecords, type WalRecord } from '../../src/postgres/wal/records.ts';
import { type Cluster, copyCluster, MAJORS, type Nursery, openNursery, withServer } from '../support/postgres.ts';
import { seededRandom, testSeed } from '../support/random.ts';
import {
  insertPosition,
  runWorkload,
  type SegmentsOfDirectory,
  segmentsOf,
  WORKLOAD_SETTINGS,
} from '../support/wal-workload.ts';

const run = promisify(execFile);
const SESSIONS = 3;
const POINTS = 2;
const DEBIAN = '/usr/lib/postgresql/15';

let nursery: Nursery;
before(async () => {
  nursery = await openNursery();
});
after(() => nursery[Symbol.asyncDispose]());

/** What a recovery came to. */
interface Recovered {
  readonly rows: string;
  /** Where its replay ended. */
  readonly lsn: Lsn;
  /** Of the last transaction in it, in microseconds since 1970. */
  readonly timestamp_us: bigint;
}

async function lookInto(open: OpenSession): Promise<Omit<Recovered, 'lsn'>> {
  await using session = await open('postgres');
  const tables = Array.from(
    { length: SESSIONS },
    (_, n) => `SELECT ${n} AS w, md5(t::text) AS row FROM public.w${n} t`,
  );
  const { rows } = await session.query(
    `SELECT count(*) || ' ' || coalesce(md5(string_agg(row, '' ORDER BY w, row)), '') AS rows,
            (extract(epoch FROM pg_last_xact_replay_timestamp()) * 1000000)::bigint::text AS time
       FROM (${tables.join(' UNION ALL ')}) rows_of_all`,
  );
  return { rows: rows[0].rows, timestamp_us: BigInt(rows[0].time) };
}

for (const major of MAJORS) {
  const seed = testSeed();
  describe(`the log of ${major}, cut by us and replayed by Postgres to a target of its own (COPPICE_TEST_SEED=${seed})`, () => {
    const random = seededRandom(seed + major);
    let base: Cluster;
    let written: Cluster;
    let wal: SegmentsOfDirectory;
    let records: WalRecord[];
    let until: Lsn;

    before(async () => {
      written = await nursery.plant(major);
      await withServer(written, WORKLOAD_SETTINGS, async (open) => {
        // So that they are there at any point.
        await runWorkload(open, random, { sessions: SESSIONS, steps: 0 });
      });
      base = await copyCluster(written, nursery.newPath());
      await withServer(written, WORKLOAD_SETTINGS, async (open) => {
        await runWorkload(open, random, { sessions: SESSIONS, steps: 50 });
        await using session = await open('postgres');
        until = formatLsn(await insertPosition(session));
        await session.query('CHECKPOINT');
      });
      const start = parseLsn((await recoveryStart(base.path)).redo_lsn);
      wal = await segmentsOf(written.path, start);
      records = [];
      for await (const record of readRecords(wal, formatLsn(start), until)) records.push(record);
      assert.ok(records.length > 500, `${records.length} records`);
    });

    const put = (name: string, directory: string) =>
      copyPlainFile(join(written.path, 'pg_wal', name), join(directory, name), wal.wal_segment_bytes);
    /** Replays all that there is, or up to the target in the settings. */
    const recover = async (cluster: Cluster, target: Record<string, string> = {}): Promise<Recovered> => {
      // Not "standby", which would wait for more.
      await rename(join(cluster.path, 'standby.signal'), join(cluster.path, 'recovery.signal'));
      // With hot standby a server is ready before it has replayed what it has.
      const settings = {
        ...WORKLOAD_SETTINGS,
        hot_standby: 'off',
        restore_command: 'false',
        recovery_target_action: 'promote',
        ...target,
      };
      const seen = await withServer(cluster, settings, lookInto);
      return { ...seen, lsn: await replayedTo(cluster.path) };
    };
    const ours = async (cut: Lsn) => {
      const cluster = await copyCluster(base, nursery.newPath());
      await layLog(cluster.path, cut, put);
      return recover(cluster);
    };
    const theirs = async (target: Record<string, string>) => {
      const cluster = await copyCluster(base, nursery.newPath());
      await layLog(cluster.path, until, put);
      return recover(cluster, target);
    };

    test('at a position: the same end, the same last transaction, the same rows', async () => {
      for (let point = 0; point < POINTS; point++) {
        const record = records[Math.floor(random() * records.length)]!;
        const asked = formatLsn(record.start + BigInt(point % 2));
        const cut = await findLsnCut(wal, asked, until);
        const target = { recovery_target_lsn: asked, recovery_target_inclusive: 'off' };
        assert.deepEqual(await ours(cut.lsn), await theirs(target), `asked ${asked}`);
        assert.equal((await ours(cut.lsn)).lsn, cut.lsn);
      }
    });

    test('at a time: the same rows, and the time of the last commit is that of Postgres', async () => {
      const commits = records.filter(({ commit }) => commit?.kind.startsWith('commit'));
      for (let point = 0; point < POINTS; point++) {
        const commit = commits[Math.floor(random() * (commits.length - 1))]!.commit!;
        const asked = commit.timestamp_us + BigInt(point % 2) * 700n;
        const cut = (await findTimeCut(wal, asked, until))!;
        const micros = String(asked % 1_000_000n).padStart(6, '0');
        const time = `${new Date(Number(asked / 1000n)).toISOString().slice(0, 19)}.${micros}+00`;
        const [own, other] = [await ours(cut.lsn), await theirs({ recovery_target_time: time })];
        assert.equal(own.rows, other.rows, `asked ${time}`);
        assert.equal(own.lsn, cut.lsn);
        assert.equal(own.timestamp_us, cut.timestamp_us);
      }
    });
  });
}

/** No pg_waldump comes with the servers from npm, and Debian's reads no log that is newer than itself: it gets one of its own. */
describe('the log of 15, beside pg_waldump', {
  skip: existsSync(join(DEBIAN, 'bin/pg_waldump')) ? false : `there is no ${DEBIAN}/bin/pg_waldump`,
}, () => {
  test('has the same records, with the same transactions and times', async () => {
    const path = nursery.newPath();
    await mkdir(path, { mode: 0o700 });
    const owner = process.getuid?.() === 0 ? { uid: 65_534, gid: 65_534 } : undefined;
    const distribution: Distribution = {
      ...{ id: 'debian-15', major: 15, version: '15', source: 'system', libc: 'any' },
      ...{ root: DEBIAN, share: '/usr/share/postgresql/15' },
    };
    await fillTemplate(distribution, path, owner);
    const random = seededRandom(testSeed());
    let start = 0n;
    let until = 0n;
    await withServer({ distribution, path, owner }, WORKLOAD_SETTINGS, async (open) => {
      await using session = await open('postgres');
      start = await insertPosition(session);
      await runWorkload(open, random, { sessions: 2, steps: 40 });
      await session.query('CHECKPOINT');
      until = await insertPosition(session);
    });
    const { timeline } = await readControlFile(path);
    const range = ['-t', String(timeline), '-s', formatLsn(start), '-e', formatLsn(until)];
    const { stdout } = await run(join(DEBIAN, 'bin/pg_waldump'), ['-p', join(path, 'pg_wal'), ...range], {
      env: { TZ: 'UTC' },
      maxBuffer: 256 * 1024 ** 2,
    });
    const dumped = stdout.split('\n').flatMap((line) => {
      const [, xid, lsn, what] = /tx: +(\d+), lsn: ([0-9A-F/]+), prev [0-9A-F/]+, desc: (.*)/.exec(line) ?? [];
      if (!lsn) return [];
      const [, day, time, fraction] =
        /^(?:COMMIT|ABORT).*?(\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d)\.?(\d*) UTC/.exec(what!) ?? [];
      const transaction = /^rmgr: Transaction/.test(line) && day;
      const us = transaction ? BigInt(Date.parse(`${day}T${time}Z`)) * 1000n + BigInt(fraction!.padEnd(6, '0')) : '';
      return [`${parseLsn(lsn)} ${xid} ${us}`];
    });
    const read: string[] = [];
    const wal = await segmentsOf(path, start);
    for await (const { start: at, xid, commit } of readRecords(wal, formatLsn(start), formatLsn(until))) {
      read.push(`${at} ${xid} ${commit?.timestamp_us ?? ''}`);
    }
    const at = dumped.findIndex((line, index) => line !== read[index]);
    assert.equal(at < 0 ? undefined : read[at], at < 0 ? undefined : dumped[at]);
    assert.equal(read.length, dumped.length);
    assert.ok(dumped.length > 300, `${dumped.length} records`);
  });
});
