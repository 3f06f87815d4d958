import assert from 'node:assert/strict';
import { once } from 'node:events';
import { chmod, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { makeStartedDirectory, removeDataDirectory, startCoppice, type TestCoppice } from '../support/coppice.ts';
import { query } from '../support/customer.ts';
import { createLiveProject, type LiveProject, liveProject } from '../support/live-project.ts';
import { until } from '../support/until.ts';

/** Where the process is killed: while a project is detached, and while it comes back. */
const GOING = ['tenant_detach:stored', 'timeline_archive:discarded'];
const COMING = ['tenant_reattach:timeline'];

/** A machine that tests something else, too, is slow. */
const timeout_ms = 120_000;

describe('a project that is detached', { timeout: 1_800_000 }, () => {
  let data_directory: string;
  let objects: string;
  let base: LiveProject;
  let child: LiveProject;

  const start = (env: Record<string, string> = {}) =>
    // The log of every branch goes there as well, later than any of this takes.
    startCoppice({
      data_directory,
      env: { COPPICE_OBJECTS: objects, COPPICE_ARCHIVE_SHIP_SECONDS: '86400', ...env },
    });
  const DETACHING = { COPPICE_DETACH_PROJECTS_AFTER_SECONDS: '1' };

  before(async () => {
    data_directory = await makeStartedDirectory();
    objects = join(data_directory, '..', 'objects');
    const coppice = await start();
    base = await createLiveProject(coppice);
    await query(base.uri, "create table held as select 'kept' as name");
    const body = { branch: { name: 'child' }, endpoints: [{ type: 'read_write' }] };
    child = liveProject(coppice, await coppice.must('POST', `${base.path}/branches`, body));
    await coppice.settled(base.id);
    await query(child.uri, "insert into held values ('of the child')");
    for (const endpoint of [base, child]) await endpoint.suspend();
    await coppice.stop();
  });
  after(() => removeDataDirectory(data_directory));

  const at = (coppice: TestCoppice, { uri }: LiveProject) => {
    const moved = new URL(uri);
    moved.port = String(coppice.pg_port);
    return moved.href;
  };
  const rowsOf = async (coppice: TestCoppice, project: LiveProject) =>
    (await query(at(coppice, project), 'select name from held order by name')).map(({ name }) => name);
  const isWhole = async (coppice: TestCoppice) => {
    assert.deepEqual(await rowsOf(coppice, child), ['kept', 'of the child']);
    assert.deepEqual(await rowsOf(coppice, base), ['kept']);
  };
  const detached = async (coppice: TestCoppice): Promise<{ id: string }[]> => {
    const text = `select id::text from coppice.timelines where detached_at is not null and project_id = '${base.id}' order by created_at`;
    return (await coppice.ownDatabase(text)).rows;
  };
  const untilDetached = async (coppice: TestCoppice) => {
    await until(async () => (await detached(coppice)).length === 2, {
      what: 'both branches to be detached',
      timeout_ms,
    });
    assert.equal((await ended(coppice, 'tenant_detach')).status, 'finished');
  };
  const sleep = async (coppice: TestCoppice) => {
    for (const { endpoint_path } of [base, child]) {
      await coppice.must('POST', `${endpoint_path}/suspend`);
      const isIdle = async () => (await coppice.must('GET', endpoint_path)).endpoint.current_state === 'idle';
      await until(isIdle, { what: 'the compute to sleep', timeout_ms });
    }
  };
  /** The newest operation of a kind, once all its attempts are over. */
  const ended = async (coppice: TestCoppice, action: string): Promise<{ status: string; error?: string }> => {
    let found: { status: string; error?: string } | undefined;
    const hasEnded = async () => {
      const { operations } = await coppice.must('GET', `${base.path}/operations`);
      found = operations.find((operation: { action: string }) => operation.action === action);
      return found !== undefined && !['running', 'scheduling'].includes(found.status);
    };
    await until(hasEnded, { what: `${action} to end`, timeout_ms });
    return found!;
  };
  const volumes = async () => {
    const all = await readdir(join(data_directory, 'storage/volumes'));
    return all.filter((name) => !name.startsWith('template-'));
  };
  const stored = () => readdir(join(objects, 'timelines')).catch(() => [] as string[]);

  /** Is killed there, with the project on its way. */
  const killAt = async (point: string): Promise<void> => {
    const doomed = await start({ COPPICE_TEST_STOP_POINT: point, ...(GOING.includes(point) ? DETACHING : {}) });
    const exit = once(doomed.process, 'exit');
    if (COMING.includes(point)) void query(at(doomed, child), 'select 1').catch(() => undefined);
    await Promise.race([exit, once(AbortSignal.timeout(timeout_ms), 'abort')]);
    assert.equal(doomed.process.signalCode, 'SIGKILL', `${point} was not reached:\n${doomed.output()}`);
  };

  for (const point of GOING) {
    it(`is whole when Coppice is killed at ${point}`, async () => {
      await killAt(point);
      const next = await start(DETACHING);
      try {
        await untilDetached(next);
        assert.deepEqual(await volumes(), [], 'nothing of it is left here');
        await isWhole(next);
        await sleep(next);
      } finally {
        await next.stop();
      }
    });
  }
  for (const point of COMING) {
    it(`is whole when Coppice is killed at ${point}`, async () => {
      const going = await start(DETACHING);
      await untilDetached(going);
      await going.stop();
      await killAt(point);
      const next = await start();
      try {
        await isWhole(next);
        await until(async () => (await detached(next)).length === 0, { what: 'all of it to be back', timeout_ms });
        await until(async () => (await stored()).length === 0, { what: 'its objects to be gone', timeout_ms });
        await sleep(next);
      } finally {
        await next.stop();
      }
    });
  }

  it('tells whoever needs what is damaged there, and nobody else', async () => {
    const going = await start(DETACHING);
    await untilDetached(going);
    const [, second] = await detached(going);
    await going.stop();
    const coppice = await start();
    const list = join(objects, 'timelines', second!.id, 'archived/list');
    const bytes = await readFile(list);
    try {
      await chmod(list, 0o600);
      await writeFile(list, Buffer.concat([bytes.subarray(0, -4), Buffer.alloc(4)]));
      await assert.rejects(rowsOf(coppice, child), { code: '57P03', message: /archive.*is not what was stored there/ });
      assert.equal((await ended(coppice, 'tenant_reattach')).status, 'failed');
      assert.deepEqual(await rowsOf(coppice, base), ['kept']);
      assert.deepEqual(await detached(coppice), [second]);
      await writeFile(`${list}.whole`, bytes);
      await rename(`${list}.whole`, list);
      await isWhole(coppice);
      const { rows } = await coppice.ownDatabase('select from coppice.history_damages where resolved_at is null');
      assert.equal(rows.length, 0);
      await sleep(coppice);
    } finally {
      await coppice.stop();
    }
  });

  it('stays here while object storage cannot be written to', async () => {
    await rm(objects, { recursive: true, force: true });
    await writeFile(objects, 'in the way');
    const coppice = await start(DETACHING);
    try {
      const isRefused = async () => (await ended(coppice, 'tenant_detach')).status === 'failed';
      await until(isRefused, { what: 'the detachment to be given up', timeout_ms });
      assert.match((await ended(coppice, 'tenant_detach')).error!, /object storage/);
      assert.deepEqual(await detached(coppice), []);
      await isWhole(coppice);
      await sleep(coppice);
    } finally {
      await rm(objects, { recursive: true, force: true });
      await coppice.stop();
    }
  });
});
