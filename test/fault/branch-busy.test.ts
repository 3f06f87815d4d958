import assert from 'node:assert/strict';
import { open, readdir, readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import pg from 'pg';
import { type Bank, type Counts, checkBank, openBank } from '../support/bank.ts';
import { startCoppice, type TestCoppice } from '../support/coppice.ts';
import { query } from '../support/customer.ts';
import { cannotMount, mountFilesystem, type TestFilesystem } from '../support/filesystem.ts';
import {
  createLiveProject,
  dataDirectoryOf,
  type LiveProject,
  liveProject,
  socketDirectoryOf,
} from '../support/live-project.ts';
import { seededRandom, testSeed } from '../support/random.ts';

/**
 * Branches of a parent on which much is written, changed and checkpointed at random, made without a checkpoint of their
 * own. COPPICE_TEST_ROUNDS=125 is the long mode, of 500 branches; COPPICE_TEST_SEED begins with the same dice.
 */
const ROUNDS = Number(process.env.COPPICE_TEST_ROUNDS ?? 1);
const AT_ONCE = 4;
const GIB = 1024 ** 3;

describe('branches of a busy parent without a checkpoint', {
  timeout: 400_000 + ROUNDS * 150_000,
  skip: cannotMount,
}, () => {
  const seed = testSeed();
  const random = seededRandom(seed);
  let filesystem: TestFilesystem;
  let coppice: TestCoppice;
  let parent: LiveProject;
  let bank: Bank | undefined;

  before(async () => {
    filesystem = await mountFilesystem('xfs', 8 * GIB);
    coppice = await startCoppice({
      data_directory: join(filesystem.path, 'd'),
      env: { COPPICE_BRANCH_WITHOUT_CHECKPOINT: 'true', COPPICE_SNAPSHOT_WAL_BYTES: '64MB' },
    });
    parent = await createLiveProject(coppice, { history_retention_seconds: 60 });
    bank = await openBank(() => connectTo(parent.uri), random);
  });
  after(async () => {
    const failed = await bank?.stop().catch((error: unknown) => error);
    const log =
      failed && (await readFile(join(coppice.data_directory, 'computes', parent.endpoint_id, 'postgres.log'), 'utf8'));
    await coppice?.stop();
    await filesystem?.remove();
    if (failed) throw new Error(`the parent failed:\n${log}`, { cause: failed });
  });

  /** As the platform, who alone may check tables and force checkpoints. */
  const connectTo = async (uri: string) => {
    const host = await socketDirectoryOf(uri);
    const client = new pg.Client({ host, user: 'cloud_admin', database: parent.database });
    client.on('error', () => undefined);
    await client.connect();
    return client;
  };

  /** Makes a branch, looks into it and deletes it. Tells what Postgres was told of the backup that it began as. */
  const branch = async (body: object, check: (session: pg.Client) => Promise<void>): Promise<string> => {
    const created = await coppice.must('POST', `${parent.path}/branches`, {
      branch: body,
      endpoints: [{ type: 'read_write', autoscaling_limit_min_cu: 1, autoscaling_limit_max_cu: 1 }],
    });
    await coppice.settled(parent.id);
    const { uri, branch_path } = liveProject(coppice, { ...created, project: undefined });
    const session = await connectTo(uri);
    await check(session);
    await session.end();
    const label = await readFile(join(await dataDirectoryOf(uri), 'backup_label.old'), 'utf8');
    await coppice.must('DELETE', branch_path);
    await coppice.settled(parent.id);
    return label;
  };

  for (let round = 1; round <= ROUNDS; round++) {
    it(`are whole, round ${round} with COPPICE_TEST_SEED=${seed}`, async () => {
      const branches = Array.from({ length: AT_ONCE }, async () => {
        await bank!.progress(Math.floor(random() * 1000));
        const least = bank!.committed();
        const label = await branch({}, (session) => checkBank(session, { least, most: bank!.asked() }));
        assert.match(label, /^BACKUP FROM: standby$/m, 'no checkpoint was forced');
      });
      const failed = (await Promise.allSettled(branches)).filter(({ status }) => status === 'rejected');
      assert.deepEqual(failed, []);
      assert.doesNotMatch(coppice.output(), /with a checkpoint instead|thrown away/);
    });
  }

  it('begin at a point of the past, too, from snapshots that forced no checkpoint', async () => {
    const session = await connectTo(parent.uri);
    let point: { least: Counts; most: Counts; lsn: string };
    let volumes: string[] = [];
    do {
      await bank!.progress(1000);
      const least = bank!.committed();
      const { rows } = await session.query('SELECT pg_current_wal_insert_lsn()::text AS lsn');
      point = { least, most: bank!.asked(), lsn: rows[0].lsn };
      const { rows: running } = await coppice.ownDatabase(
        `SELECT s.volume->>'id' AS id FROM coppice.timeline_snapshots s JOIN coppice.branches b USING (timeline_id)
           WHERE b.id = '${parent.branch_id}' AND s.kind = 'running' AND s.volume IS NOT NULL`,
      );
      volumes = running.map(({ id }) => id);
    } while (volumes.length === 0);
    await session.end();
    const label = await branch({ parent_lsn: point.lsn }, (past) => checkBank(past, point));
    assert.match(label, /^BACKUP FROM: standby$/m);
  });
});

describe('a branch whose parent has lost log since its last checkpoint', {
  timeout: 300_000,
  skip: cannotMount,
}, () => {
  let filesystem: TestFilesystem;
  let coppice: TestCoppice;

  before(async () => {
    filesystem = await mountFilesystem('xfs', 2 * GIB);
    const env = { COPPICE_BRANCH_WITHOUT_CHECKPOINT: 'true' };
    coppice = await startCoppice({ data_directory: join(filesystem.path, 'd'), env });
  });
  after(async () => {
    await coppice?.stop();
    await filesystem?.remove();
  });

  /** A parent without a history, so that its log is nowhere else; and how a branch of it was made in the end. */
  const branchAfter = async (lose: (segment: string) => Promise<void>): Promise<{ label: string; rows: number }> => {
    const parent = await createLiveProject(coppice, { history_retention_seconds: 0 });
    await query(parent.uri, 'create table written as select 1 as n');
    const wal = join(await dataDirectoryOf(parent.uri), 'pg_wal');
    for (let n = 0; n < 4; n++) {
      await query(
        parent.uri,
        "insert into written select 1 from pg_logical_emit_message(true, 'a', repeat('x', 1000000))",
      );
    }
    const segments = (await readdir(wal)).filter((name) => /^[0-9A-F]{24}$/.test(name)).sort();
    await lose(join(wal, segments.at(-3)!));
    const created = await coppice.must('POST', `${parent.path}/branches`, { endpoints: [{ type: 'read_write' }] });
    await coppice.settled(parent.id);
    const { uri } = liveProject(coppice, { ...created, project: undefined });
    const [{ rows }] = await query(uri, 'select count(*)::int as rows from written');
    const label = await readFile(join(await dataDirectoryOf(uri), 'backup_label.old'), 'utf8');
    return { label, rows };
  };

  it('is made with a checkpoint when a segment is gone', async () => {
    const { label, rows } = await branchAfter((segment) => rm(segment));
    assert.equal(rows, 5);
    assert.match(label, /^BACKUP FROM: primary$/m);
    assert.match(coppice.output(), /a running server is copied with a checkpoint instead/);
  });

  it('is thrown away and made with a checkpoint when a segment cannot be replayed', async () => {
    const { label, rows } = await branchAfter(async (segment) => {
      await using file = await open(segment, 'r+');
      await file.write(Buffer.alloc(8192), 0, 8192, 128 * 1024);
    });
    assert.equal(rows, 5);
    assert.match(label, /^BACKUP FROM: primary$/m);
    assert.match(coppice.output(), /a copy without a checkpoint is thrown away and made anew/);
  });
});
