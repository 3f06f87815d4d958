import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import type { ObjectInfo } from '../../src/drivers/objects/contract.ts';
import { makeDataDirectory, removeDataDirectory, startCoppice, type TestCoppice } from '../support/coppice.ts';
import { query } from '../support/customer.ts';
import { type LiveArchive, liveArchive } from '../support/live-archive.ts';
import { createLiveProject, type LiveProject, liveProject } from '../support/live-project.ts';
import { describeBestObjects } from '../support/object-target.ts';
import { until } from '../support/until.ts';

const run = promisify(execFile);
const COMMAND = fileURLToPath(new URL('../../bin/coppice.ts', import.meta.url));
const FAILED = /log cannot be sent to object storage/g;

describeBestObjects('the log of a branch in object storage', (target) => {
  let data_directory: string;
  let coppice: TestCoppice;
  let project: LiveProject;
  let archive: LiveArchive;
  let stop_point: string;
  let lsn: string;
  let written_megabytes = 0;

  /** Another Coppice listens on another port. */
  const here = (uri: string) => {
    const url = new URL(uri);
    url.port = String(coppice.pg_port);
    return url.href;
  };
  const start = async () => {
    const soon = { COPPICE_ARCHIVE_SHIP_SECONDS: '1', COPPICE_ARCHIVE_LOCAL_SECONDS: '1' };
    const env = { ...target().env, ...soon, COPPICE_TEST_STOP_POINT: stop_point };
    coppice = await startCoppice({ data_directory, env });
  };
  /** Some megabytes of log. */
  const write = async (megabytes: number) => {
    await query(
      here(project.uri),
      `insert into filler select repeat('x', 1000) from generate_series(1, ${megabytes * 950})`,
    );
    written_megabytes += megabytes;
  };
  const position = async (): Promise<string> =>
    (await query(here(project.uri), 'select pg_current_wal_insert_lsn()::text as lsn'))[0].lsn;
  const packs = async () => {
    const keys: string[] = [];
    const prefix = `timelines/${archive.timeline_id}/log/`;
    for await (const { key } of target().objects.list(prefix) as AsyncIterable<ObjectInfo>) keys.push(key);
    return keys;
  };
  const command = async (...words: string[]) => {
    const env = { PATH: process.env.PATH, ...target().env, COPPICE_DATA_DIR: data_directory };
    // It ends with 1 when something is broken.
    const { stdout } = await run(process.execPath, [COMMAND, ...words], { env }).catch((error) => error);
    return stdout as string;
  };
  const status = async () => JSON.parse(await command('status', '--json')).log_shipping;
  const fail = async () => {
    const { server, env } = target();
    if (server) return server.proxy.set({ kind: 'down' });
    await rename(env.COPPICE_OBJECTS!, `${env.COPPICE_OBJECTS}-away`);
    await writeFile(env.COPPICE_OBJECTS!, '');
  };
  const recover = async () => {
    const { server, env } = target();
    if (server) return server.proxy.set({ kind: 'none' });
    await rm(env.COPPICE_OBJECTS!);
    await rename(`${env.COPPICE_OBJECTS}-away`, env.COPPICE_OBJECTS!);
  };
  const branchAtPoint = (parent_lsn = lsn) =>
    coppice.call('POST', `${project.path}/branches`, {
      branch: { parent_id: project.branch_id, parent_lsn },
      endpoints: [{ type: 'read_write' }],
    });
  const rowsOf = async (answer: Awaited<ReturnType<typeof branchAtPoint>>) => {
    const branch = liveProject(coppice, { ...answer.body, roles: [{ name: project.role }], databases: [{}] });
    const uri = new URL(here(project.uri));
    uri.searchParams.set('options', `endpoint=${branch.endpoint_id}`);
    return query(uri.href, 'select count(*)::int as count from filler');
  };

  before(async () => {
    data_directory = await makeDataDirectory();
    stop_point = join(data_directory, '../stop-point');
    await writeFile(stop_point, '');
    await start();
    project = await createLiveProject(coppice);
    archive = await liveArchive(coppice, project);
    await query(project.uri, 'create table filler (text text)');
  });
  after(async () => {
    await coppice?.stop();
    await removeDataDirectory(data_directory);
  });

  it('is sent there, and goes from this disk then', async () => {
    await write(8);
    lsn = await position();
    await write(8);
    await project.suspend();
    await until(async () => (await packs()).length > 0, { what: 'a pack' });
    await until(async () => (await archive.list()).length <= 1, { what: 'segments to go from this disk' });
    await until(async () => (await status()).waiting_segments === 0, { what: 'nothing to wait' });
    assert.match(await command('doctor'), /ok +object storage: /);
    assert.match(await command('doctor'), /ok +history:/);
  });

  it('is replayed from there', async () => {
    const answer = await branchAtPoint();
    assert.equal(answer.status, 201, JSON.stringify(answer.body));
    await coppice.settled(project.id);
    assert.deepEqual(await rowsOf(answer), [{ count: 8 * 950 }]);
    await coppice.must('DELETE', `${project.path}/branches/${answer.body.branch.id}`);
    await coppice.settled(project.id);
  });

  for (const point of ['archive:sent', 'archive:shipped', 'archive:freed']) {
    it(`is neither lost nor there twice when Coppice is killed at ${point}`, async () => {
      const ended = once(coppice.process, 'exit');
      await write(6);
      const there = await position();
      const count = written_megabytes;
      // The segment that it stands in is finished, and sent with the others.
      await write(2);
      await writeFile(stop_point, point);
      // What was written may have been sent by now, so that there is more to send. Who writes it may be cut off.
      await query(here(project.uri), "select pg_logical_emit_message(true, 'more', repeat('x', 3000000))").catch(
        () => undefined,
      );
      const [, signal] = await ended;
      await writeFile(stop_point, '');
      assert.equal(signal, 'SIGKILL');
      await start();
      await until(async () => (await status()).waiting_segments === 0, { what: 'nothing to wait', timeout_ms: 90_000 });
      await until(async () => (await archive.list()).length <= 1, { what: 'segments to go from this disk' });
      const answer = await branchAtPoint(there);
      assert.equal(answer.status, 201, JSON.stringify(answer.body));
      await coppice.settled(project.id);
      assert.deepEqual(await rowsOf(answer), [{ count: count * 950 }]);
      await coppice.must('DELETE', `${project.path}/branches/${answer.body.branch.id}`);
      await coppice.settled(project.id);
      assert.match(await command('doctor'), /ok +history:/);
      const ranges = (await packs()).map((key) => key.slice(key.lastIndexOf('/') + 1).split('-') as [string, string]);
      for (const [index, [first]] of ranges.entries()) {
        assert.ok(index === 0 || first > ranges[index - 1]![1], `${first} is in one pack`);
      }
    });
  }

  it('stays on this disk while object storage is down, which holds up nobody', async () => {
    await coppice.stop();
    await fail();
    await start();
    const before = (await archive.list()).length;
    await write(8);
    await until(async () => (await archive.list()).length >= before + 5, { what: 'the log in the archive' });
    assert.deepEqual(await query(here(project.uri), 'select count(*)::int as count from filler'), [
      { count: written_megabytes * 950 },
    ]);
    // While it fails it is tried, and counted, ever more rarely: once a minute in the end.
    await until(async () => (await status()).waiting_segments >= 5, {
      what: 'the status to count what waits',
      timeout_ms: 90_000,
    });
    assert.match(await command('status'), /objects +\d+ segments wait, the oldest since .*; failing since/);
    assert.match(await command('doctor'), /BAD +object storage: \d+ segments of log wait; nothing could be sent since/);
    await archive.assertSound();
    assert.equal(coppice.output().match(FAILED)?.length, 1);
  });

  it('is missed by a branch that needs it, which is told so, until object storage is back', async () => {
    const early = await branchAtPoint();
    if (early.status !== 201) {
      // The directory is not there, which does not pass by itself.
      assert.equal(early.status, target().server ? 503 : 500, JSON.stringify(early.body));
      assert.match(early.body.message, /object storage/);
    } else {
      const failures = async () => {
        const { operations } = await coppice.must('GET', `${project.path}/operations`);
        return operations.find(
          ({ action, failures_count }: { action: string; failures_count: number }) =>
            action === 'create_branch' && failures_count > 0,
        );
      };
      await until(async () => (await failures()) !== undefined, { what: 'the branch to fail' });
      assert.match((await failures()).error ?? 'object storage', /object storage/);
    }
    await recover();
    const answer = early.status === 201 ? early : await branchAtPoint();
    assert.equal(answer.status, 201, JSON.stringify(answer.body));
    await coppice.settled(project.id);
    assert.deepEqual(await rowsOf(answer), [{ count: 8 * 950 }]);
    await until(async () => (await status()).waiting_segments === 0, {
      what: 'the rest to be sent',
      timeout_ms: 90_000,
    });
    assert.equal((await status()).failing_since, null);
    await until(async () => (await archive.list()).length <= 1, { what: 'the rest to go from this disk' });
  });

  it('is removed from there with the project, even if that is down at this moment', async () => {
    await fail();
    const { projects } = await coppice.must('GET', '/projects');
    assert.equal(projects.length, 1);
    await coppice.must('DELETE', project.path);
    await until(async () => !(await archive.list()).length, { what: 'the archive to go' });
    await recover();
    await until(async () => (await packs()).length === 0, { what: 'the packs to go', timeout_ms: 90_000 });
  });
});
