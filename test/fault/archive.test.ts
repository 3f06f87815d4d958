import assert from 'node:assert/strict';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdir, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { makeStartedDirectory, removeDataDirectory, startCoppice, type TestCoppice } from '../support/coppice.ts';
import { query } from '../support/customer.ts';
import { cannotMount, system } from '../support/filesystem.ts';
import { type LiveArchive, liveArchive } from '../support/live-archive.ts';
import { createLiveProject, type LiveProject } from '../support/live-project.ts';
import { until } from '../support/until.ts';

/** Some megabytes of log. */
const write = (uri: string, megabytes: number) =>
  query(uri, `insert into filler select repeat('x', 1000) from generate_series(1, ${megabytes * 950})`);

describe('archives on a disk that is full', { timeout: 240_000, skip: cannotMount }, () => {
  let data_directory: string;
  let disk: string;
  let coppice: TestCoppice;
  let greedy: LiveProject;
  let other: LiveProject;

  before(async () => {
    data_directory = await makeStartedDirectory();
    disk = join(data_directory, 'storage/archive');
    await mkdir(disk, { recursive: true });
    await system('mount', '-t', 'tmpfs', '-o', 'size=8M,mode=0711', 'coppice-test', disk);
    coppice = await startCoppice({ data_directory });
    [greedy, other] = await Promise.all([createLiveProject(coppice), createLiveProject(coppice)]);
    for (const { uri } of [greedy, other]) await query(uri, 'create table filler (text text)');
  });
  after(async () => {
    await coppice?.stop();
    await system('umount', disk);
    await removeDataDirectory(data_directory);
  });

  it('stop no server, and get everything once there is room', async () => {
    const [mine, theirs] = [await liveArchive(coppice, greedy), await liveArchive(coppice, other)];
    await write(greedy.uri, 30);
    await until(
      async () => {
        const [{ failed }] = await query(
          greedy.uri,
          'select failed_count > 0 as failed from pg_stat_get_archiver()',
        ).catch(() => [{ failed: true }]);
        return failed;
      },
      { what: 'the server to fail to archive' },
    );
    await write(greedy.uri, 5);
    await write(other.uri, 2);
    assert.deepEqual(await query(other.uri, 'select count(*)::int as count from filler'), [{ count: 1900 }]);
    await other.suspend();
    assert.deepEqual(await query(other.uri, 'select count(*)::int as count from filler'), [{ count: 1900 }]);

    await system('mount', '-o', 'remount,size=256M', disk);
    // A server that could not archive tries again when it has more to archive, or after a minute.
    for (const { uri } of [greedy, other]) await write(uri, 2);
    await until(async () => (await mine.list()).length >= 35, { what: 'the log to be archived', timeout_ms: 90_000 });
    await until(async () => (await theirs.list()).length >= 3, { what: "the other's log", timeout_ms: 90_000 });
    await mine.assertSound();
    await theirs.assertSound();
  });
});

describe('Coppice is killed while it looks after an archive', { timeout: 400_000 }, () => {
  let data_directory: string;
  let coppice: TestCoppice;
  let project: LiveProject;
  let archive: LiveArchive;

  const start = async (stop_point?: string) => {
    const env: Record<string, string> = { COPPICE_SNAPSHOT_WAL_BYTES: '2MB' };
    if (stop_point) env.COPPICE_TEST_STOP_POINT = stop_point;
    coppice = await startCoppice({ data_directory, env, flags: ['--keep-computes'] });
  };
  const uri = () => {
    const url = new URL(project.uri);
    url.port = String(coppice.pg_port);
    return url.href;
  };
  /** What `trigger` begins ends with a kill; the next Coppice goes on. */
  const killedAt = async (stop_point: string, trigger: () => Promise<unknown>) => {
    await coppice.stop();
    await start(stop_point);
    const ended = once(coppice.process, 'exit');
    await trigger().catch(() => undefined);
    const [, signal] = await ended;
    assert.equal(signal, 'SIGKILL', stop_point);
    await start();
  };

  before(async () => {
    data_directory = await makeStartedDirectory();
    await start();
    project = await createLiveProject(coppice);
    archive = await liveArchive(coppice, project);
    await query(project.uri, 'create table filler (text text)');
  });
  after(async () => {
    await coppice?.stop();
    if (coppice?.process.exitCode !== null) await start();
    await coppice?.must('DELETE', project.path).catch(() => undefined);
    await until(() => !existsSync(archive.directory), { what: 'the archive to go' });
    await coppice?.stop();
    await removeDataDirectory(data_directory);
  });

  for (const point of ['archive:taken', 'archive:removed']) {
    it(`at ${point}: nothing is lost`, async () => {
      const count = (await archive.list()).length;
      await killedAt(point, () => write(uri(), 6));
      await write(uri(), 2);
      await until(async () => (await archive.list()).length >= Math.min(count + 5, 5), { what: 'the log' });
      await until(async () => (await archive.incoming()).length === 0, { what: 'all to be taken in' });
      await archive.assertSound();
      assert.deepEqual(await readdir(join(archive.directory, 'refused')), []);
    });
  }

  it('at archive:deleted: it is deleted all the same', async () => {
    await killedAt('archive:deleted', () =>
      coppice.call('PATCH', project.path, { project: { history_retention_seconds: 0 } }),
    );
    await until(() => !existsSync(archive.directory), { what: 'the archive to go' });
    assert.deepEqual(await query(uri(), 'select 1 as one'), [{ one: 1 }]);
  });
});
