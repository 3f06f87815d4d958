import assert from 'node:assert/strict';
import { once } from 'node:events';
import { lstat, readdir, readFile, rm, statfs } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { consistentEnd } from '../../src/postgres/consistent-end.ts';
import { readControlFile } from '../../src/postgres/control-file.ts';
import { startCoppice, type TestCoppice } from '../support/coppice.ts';
import { connect, query } from '../support/customer.ts';
import { cannotMount, mountFilesystem, system, type TestFilesystem } from '../support/filesystem.ts';
import { createLiveProject, dataDirectoryOf, type LiveProject, liveProject } from '../support/live-project.ts';
import { until } from '../support/until.ts';

const MEBIBYTE = 1024 ** 2;
const DAY_SECONDS = 86_400;

interface Snapshot {
  readonly id: string;
  readonly kind: 'birth' | 'suspend' | 'running';
  readonly lsn: string;
  readonly taken_at: Date;
  readonly volume: { readonly id: string } | null;
}

describe('snapshots of timelines', { timeout: 600_000, skip: cannotMount }, () => {
  let filesystem: TestFilesystem;
  let data_directory: string;
  let coppice: TestCoppice;

  /** Much log makes a snapshot, time does not, unless a test says otherwise. */
  const start = async (env: Record<string, string> = {}) => {
    coppice = await startCoppice({ data_directory, env: { COPPICE_SNAPSHOT_WAL_BYTES: '8MB', ...env } });
  };
  before(async () => {
    filesystem = await mountFilesystem('xfs', 3 * 1024 * MEBIBYTE);
    data_directory = join(filesystem.path, 'd');
    await start();
  });
  after(async () => {
    await coppice?.stop();
    await filesystem?.remove();
  });

  const volumePath = (id: string) => join(data_directory, 'storage/volumes', id);
  const volumes = async () =>
    (await readdir(join(data_directory, 'storage/volumes'))).filter((name) => !name.startsWith('template-')).sort();
  const snapshotsOf = async ({ branch_id }: Pick<LiveProject, 'branch_id'>): Promise<Snapshot[]> => {
    const { rows } = await coppice.ownDatabase(
      `select snapshots.* from coppice.timeline_snapshots snapshots
         join coppice.branches on branches.timeline_id = snapshots.timeline_id
         where branches.id = '${branch_id}' and purged_at is null order by snapshots.created_at`,
    );
    return rows;
  };
  const kinds = async (of: Pick<LiveProject, 'branch_id'>) => (await snapshotsOf(of)).map(({ kind }) => kind);
  const timelineOf = async ({ branch_id }: Pick<LiveProject, 'branch_id'>) =>
    (
      await coppice.ownDatabase(
        `select timelines.* from coppice.timelines join coppice.branches on branches.timeline_id = timelines.id
           where branches.id = '${branch_id}'`,
      )
    ).rows[0];
  const write = (uri: string, mebibytes = 0.01) =>
    query(uri, 'insert into written select repeat($1, 1000) from generate_series(1, $2::int)', [
      'x',
      Math.ceil(mebibytes * 1000),
    ]);
  const createProject = async (project: object = {}): Promise<LiveProject> => {
    const created = await createLiveProject(coppice, project);
    await query(created.uri, 'create table written (data text)');
    await query(created.uri, 'alter table written alter data set storage external');
    return created;
  };
  /** The same project by the port of the Coppice that runs now. */
  const uriOf = ({ uri }: LiveProject) => {
    const url = new URL(uri);
    url.port = String(coppice.pg_port);
    return url.href;
  };
  const suspend = async (of: LiveProject) => {
    await coppice.must('POST', `${of.endpoint_path}/suspend`);
    await coppice.settled(of.id);
  };
  /** Every volume is a timeline's or a snapshot's, and every snapshot has one. */
  const assertNothingStray = async () => {
    const look = async () => {
      const { rows } = await coppice.ownDatabase(
        `select volume ->> 'id' as id from coppice.timelines where purged_at is null
         union all select coalesce(volume ->> 'id', 'unfinished ' || id) from coppice.timeline_snapshots where purged_at is null`,
      );
      return { known: rows.map(({ id }) => id).sort(), volumes: await volumes() };
    };
    await until(
      async () => {
        const { known, volumes } = await look();
        return JSON.stringify(known) === JSON.stringify(volumes);
      },
      { what: 'strays to be gone', timeout_ms: 40_000 },
    ).catch(async () => assert.fail(`strays: ${JSON.stringify(await look())}`));
  };

  const remove = async (project: LiveProject) => {
    await coppice.must('DELETE', project.path);
    await until(async () => (await snapshotsOf(project)).length === 0, { what: 'its snapshots to go' });
    await assertNothingStray();
  };

  it('begin with the birth of a project and of a branch, which nobody but Coppice can reach', async () => {
    const project = await createProject();
    const branched = liveProject(
      coppice,
      await coppice.must('POST', `${project.path}/branches`, { endpoints: [{ type: 'read_write' }] }),
    );
    await coppice.settled(project.id);
    for (const one of [project, branched]) {
      const [birth, ...others] = await snapshotsOf(one);
      assert.deepEqual(others, []);
      assert.equal(birth!.kind, 'birth');
      const { birth_lsn, birth_at } = await timelineOf(one);
      assert.deepEqual([birth!.lsn, birth!.taken_at], [birth_lsn, birth_at]);
      const path = volumePath(birth!.volume!.id);
      const { uid, mode } = await lstat(path);
      assert.deepEqual([uid, mode & 0o777], [0, 0o700]);
      assert.equal((await lstat(join(path, 'PG_VERSION'))).uid, 0);
      assert.equal(await consistentEnd(path), birth_lsn);
    }
    await remove(project);
  });

  it('are not made where no history is kept', async () => {
    const project = await createProject({ history_retention_seconds: 0 });
    await suspend(project);
    assert.deepEqual(await snapshotsOf(project), []);
    assert.match((await timelineOf(project)).birth_lsn, /^0\//, 'where it begins is known all the same');
  });

  it('are made when a compute that wrote goes to sleep, and not when it did not', async () => {
    const project = await createProject();
    await write(project.uri);
    await suspend(project);
    assert.deepEqual(await kinds(project), ['birth', 'suspend']);
    const asleep = (await snapshotsOf(project))[1]!;
    assert.equal(await consistentEnd(volumePath(asleep.volume!.id)), asleep.lsn);
    assert.equal(await consistentEnd(volumePath((await timelineOf(project)).volume.id)), asleep.lsn);

    // A read or the server itself may tidy up a page, which is written; soon there is nothing left to tidy.
    const suspendedWithout = async () => {
      const before = await kinds(project);
      await query(project.uri, 'select 1');
      await suspend(project);
      return (await kinds(project)).length === before.length;
    };
    await until(suspendedWithout, { what: 'a suspend without a snapshot', timeout_ms: 60_000 });
    const before = await kinds(project);
    await write(project.uri);
    await suspend(project);
    assert.deepEqual(await kinds(project), [...before, 'suspend']);
  });

  it('are made of a running server that writes much, without disturbing it', async () => {
    const project = await createProject();
    const stop = new AbortController();
    let written = 0;
    const writing = (async () => {
      await using client = await connect(project.uri);
      for (; !stop.signal.aborted; written++) {
        await client.query("insert into written select repeat('x', 1000) from generate_series(1, 100)");
      }
    })();
    const running = async () => (await snapshotsOf(project)).filter(({ kind, volume }) => kind === 'running' && volume);
    await until(async () => (await running()).length >= 2, { what: 'two snapshots', timeout_ms: 60_000 });
    stop.abort();
    await writing;
    assert.equal((await query(project.uri, 'select count(*)::int as count from written'))[0].count, written * 100);

    const [first, second] = await running();
    const path = volumePath(second!.volume!.id);
    assert.match(await readFile(join(path, 'backup_label'), 'utf8'), /^START WAL LOCATION/);
    assert.ok((await readdir(join(path, 'pg_wal'))).some((name) => /^[0-9A-F]{24}$/.test(name)));
    const [{ apart }] = await query(project.uri, 'select ($1::pg_lsn - $2::pg_lsn)::int8::text as apart', [
      second!.lsn,
      first!.lsn,
    ]);
    assert.ok(Number(apart) >= 7 * MEBIBYTE, `${apart} bytes apart`);
  });

  it('can be replayed from, whichever kind they are of', async () => {
    const project = await createProject();
    const childAt = async (parent_lsn: string) => {
      const child = liveProject(
        coppice,
        await coppice.must('POST', `${project.path}/branches`, {
          branch: { parent_lsn },
          endpoints: [{ type: 'read_write' }],
        }),
      );
      await coppice.settled(project.id);
      const [{ count }] = await query(child.uri, 'select count(*)::int as count from written');
      return count;
    };
    const mark = async () =>
      (
        await query(project.uri, 'select count(*)::int as count, pg_current_wal_insert_lsn()::text as lsn from written')
      )[0];
    await write(project.uri);
    const afterBirth = await mark();
    await suspend(project);
    assert.equal(await childAt((await snapshotsOf(project))[1]!.lsn), afterBirth.count, 'the end of a suspend itself');
    await write(project.uri);
    const afterSuspend = await mark();
    await write(project.uri, 10);
    await until(async () => (await kinds(project)).includes('running'), { what: 'a snapshot', timeout_ms: 60_000 });
    await until(async () => (await snapshotsOf(project)).every(({ volume }) => volume), { what: 'its end' });
    await write(project.uri);
    const afterRunning = await mark();
    for (const { lsn, count } of [afterSuspend, afterRunning]) assert.equal(await childAt(lsn), count);
  });

  it('are thinned by age, and go with the window, as does everything when none is kept', async () => {
    const project = await createProject({ history_retention_seconds: 7 * DAY_SECONDS });
    for (let round = 0; round < 5; round++) {
      await write(project.uri);
      await suspend(project);
    }
    const [birth, a, b, c, d] = await snapshotsOf(project);
    const age = (snapshot: Snapshot, days: number) =>
      coppice.ownDatabase(
        `update coppice.timeline_snapshots set taken_at = date_trunc('day', now()) - interval '${days} days' where id = '${snapshot.id}'`,
      );
    await Promise.all([age(birth!, 9), age(a!, 8), age(b!, 5), age(c!, 5), age(d!, 4)]);
    const keep = async (history_retention_seconds: number) => {
      await coppice.must('PATCH', project.path, { project: { history_retention_seconds } });
      await coppice.settled(project.id);
      return (await snapshotsOf(project)).map(({ id }) => id);
    };
    const ids = (...of: (Snapshot | undefined)[]) => of.map((one) => one!.id);
    const newest = (await snapshotsOf(project)).at(-1);
    assert.deepEqual(await keep(6 * DAY_SECONDS), ids(a, b, d, newest), 'a is needed by the oldest point, c by none');
    assert.deepEqual(await keep(3600), ids(d, newest));
    assert.deepEqual(await keep(0), []);
    await assertNothingStray();

    assert.deepEqual(await keep(DAY_SECONDS), []);
    await write(project.uri);
    await until(async () => (await kinds(project)).length > 0, { what: 'a new floor' });
  });

  it('are made of a running server that writes little after a while, and only if it wrote', async () => {
    await coppice.stop();
    await start({ COPPICE_SNAPSHOT_INTERVAL_SECONDS: '1' });
    const project = await createProject();
    const ready = async () => (await snapshotsOf(project)).filter(({ volume }) => volume).length;
    await until(async () => (await ready()) >= 2, { what: 'a snapshot', timeout_ms: 30_000 });
    // The first may have come between two statements, and the server tidies up a little by itself; soon nothing is written.
    const stays = async () => {
      const before = await ready();
      const other = await createProject();
      await until(async () => (await kinds(other)).includes('running'), { what: 'rounds', timeout_ms: 30_000 });
      return (await ready()) === before;
    };
    await until(stays, { what: 'rounds without a snapshot', timeout_ms: 60_000 });
    await coppice.stop();
    await start();
  });

  it('are what branches of a busy parent begin from, so that it makes no checkpoint for them', async () => {
    await coppice.stop();
    await start({ COPPICE_SNAPSHOT_WAL_BYTES: '256MB' });
    const project = await createProject();
    const lastCheckpoint = async () => (await readControlFile(await dataDirectoryOf(project.uri))).checkpointLsn;
    const countIn = async (uri: string) => (await query(uri, 'select count(*)::int as count from written'))[0].count;
    const branch = async () => {
      const before = { checkpoint: await lastCheckpoint(), rows: await countIn(project.uri) };
      const child = liveProject(
        coppice,
        await coppice.must('POST', `${project.path}/branches`, { endpoints: [{ type: 'read_write' }] }),
      );
      await coppice.settled(project.id);
      assert.equal(await countIn(child.uri), before.rows);
      const forced = (await lastCheckpoint()) !== before.checkpoint;
      return { forced, child };
    };
    await write(project.uri);
    assert.ok((await branch()).forced, 'a checkpoint that has little to write is no disturbance');
    await write(project.uri, 40);
    const { forced, child } = await branch();
    assert.ok(!forced);
    assert.equal((await kinds(child)).includes('birth'), false, 'its compute replayed, and wrote on');
    await until(async () => (await kinds(child)).includes('running'), { what: 'a floor of its history' });

    const [snapshot] = await snapshotsOf(project);
    await rm(join(volumePath(snapshot!.volume!.id), 'pg_xact'), { recursive: true });
    assert.ok((await branch()).forced, 'one whose snapshot is damaged is made in another way');
    assert.match(coppice.output(), /a copy without a checkpoint is thrown away and made anew/);
    await remove(project);
    await coppice.stop();
    await start();
  });

  for (const point of [
    'snapshot:written',
    'snapshot:copied',
    'snapshot:taken',
    'snapshot:marked',
    'snapshot:deleted',
  ]) {
    it(`are finished or removed after a kill at ${point}`, async () => {
      const project = await createProject();
      await write(project.uri);
      await coppice.stop();
      await start({ COPPICE_TEST_STOP_POINT: point });
      const doomed = coppice;
      const died = once(doomed.process, 'exit');
      const change = ['snapshot:marked', 'snapshot:deleted'].includes(point);
      const trigger = async () => {
        await query(uriOf(project), 'select 1');
        if (change) await doomed.call('PATCH', project.path, { project: { history_retention_seconds: 0 } });
        else await doomed.call('POST', `${project.endpoint_path}/suspend`);
      };
      await Promise.race([
        died,
        trigger()
          .catch(() => undefined)
          .then(() => died),
      ]);
      assert.equal(doomed.process.signalCode, 'SIGKILL', doomed.output());
      await start();
      await coppice.settled(project.id);
      await assertNothingStray();
      assert.deepEqual(await kinds(project), change ? [] : ['birth', 'suspend']);
      assert.equal((await query(uriOf(project), 'select count(*)::int as count from written'))[0].count, 10);
    });
  }

  it('are left out while the storage is nearly full, and nothing fails for it', async () => {
    const project = await createProject();
    await write(project.uri);
    const { bsize, blocks, bavail } = await statfs(filesystem.path);
    const filler = join(filesystem.path, 'filler');
    await system('fallocate', '-l', String(bsize * Math.floor(bavail - blocks / 40)), filler);
    await suspend(project);
    assert.deepEqual(await kinds(project), ['birth']);
    await rm(filler);
    await write(project.uri);
    await suspend(project);
    assert.deepEqual(await kinds(project), ['birth', 'suspend']);
    await assertNothingStray();
  });

  it('go with their branch and their project, a snapshot that is just being made too', async () => {
    const project = await createProject();
    const child = liveProject(
      coppice,
      await coppice.must('POST', `${project.path}/branches`, { endpoints: [{ type: 'read_write' }] }),
    );
    await coppice.settled(project.id);
    await Promise.all([write(project.uri, 20), write(child.uri, 20)]);
    await coppice.must('DELETE', child.branch_path);
    await coppice.settled(project.id);
    assert.deepEqual(await snapshotsOf(child), []);
    await remove(project);
  });
});
