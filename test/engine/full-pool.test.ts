import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { readdir, statfs } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { unmountPool } from '../../src/drivers/storage/pool.ts';
import { makeDataDirectory, removeDataDirectory, startCoppice, type TestCoppice } from '../support/coppice.ts';
import { query } from '../support/customer.ts';
import { cannotMount } from '../support/filesystem.ts';
import { createLiveProject, type LiveProject } from '../support/live-project.ts';
import { until } from '../support/until.ts';

const run = promisify(execFile);
const COMMAND = fileURLToPath(new URL('../../bin/coppice.ts', import.meta.url));
const MEBIBYTE = 1024 ** 2;

describe('a storage pool that fills up', { timeout: 480_000, skip: cannotMount }, () => {
  let data_directory: string;
  let mount: string;
  let coppice: TestCoppice;
  let greedy: LiveProject;
  let other: LiveProject;

  before(async () => {
    data_directory = await makeDataDirectory();
    await run(process.execPath, [COMMAND, 'pool', 'create', '--size', '512M'], {
      env: { PATH: `${process.env.PATH}:/usr/sbin:/sbin`, COPPICE_DATA_DIR: data_directory },
    });
    mount = join(data_directory, 'pool/mount');
    coppice = await startCoppice({ data_directory });
    [greedy, other] = await Promise.all([createLiveProject(coppice), createLiveProject(coppice)]);
    await query(other.uri, 'create table kept as select 1 as one');
  });
  after(async () => {
    await coppice?.stop();
    await unmountPool(data_directory);
    await removeDataDirectory(data_directory);
  });

  const freeBytes = async () => {
    const { bsize, bavail } = await statfs(mount);
    return bsize * bavail;
  };
  const volumes = async () => (await readdir(join(mount, 'volumes'))).sort();
  const branch = ({ path }: LiveProject) => coppice.call('POST', `${path}/branches`, { branch: {} });

  it('gives branches that cost little', async () => {
    assert.match(coppice.output(), /\(reflink\)/);
    const before = await freeBytes();
    const { status, body } = await branch(other);
    assert.equal(status, 201);
    await coppice.settled(other.id);
    const cost = before - (await freeBytes());
    // A copy would take some thirty.
    assert.ok(cost < 12 * MEBIBYTE, `${cost} bytes`);
    await coppice.must('DELETE', `${other.path}/branches/${body.branch.id}`);
    await coppice.settled(other.id);
  });

  it('refuses what is new, names the reason, and leaves nothing half-made', async () => {
    await query(greedy.uri, 'create table filler (data text)');
    await query(greedy.uri, 'alter table filler alter data set storage external');
    const reserve = 512 * MEBIBYTE * 0.05;
    for (let room = await freeBytes(); room > reserve; room = await freeBytes()) {
      const rows = Math.max(1, Math.floor((Math.min(room - reserve, 60 * MEBIBYTE) / MEBIBYTE) * 0.4));
      await query(greedy.uri, `insert into filler select repeat('x', 1048576) from generate_series(1, ${rows})`);
      await query(greedy.uri, 'checkpoint').catch(() => undefined);
    }
    // The pool is looked at every quarter of a minute. One who asks without a pause has so many unfinished by then that
    // this is what is refused.
    await until(async () => (await branch(other)).status === 422, {
      what: 'a refusal',
      timeout_ms: 60_000,
      interval_ms: 500,
    });
    // Those that were asked for before the pool was looked at were refused by their operations.
    await until(
      async () => (await other.operations()).every(({ status }) => !['running', 'scheduling'].includes(status)),
      { what: 'the operations to end' },
    );
    const { branches } = await coppice.must('GET', `${other.path}/branches`);
    for (const { id, default: isDefault } of branches) {
      if (!isDefault) await coppice.must('DELETE', `${other.path}/branches/${id}`);
    }
    await until(
      async () => (await other.operations()).every(({ status }) => !['running', 'scheduling'].includes(status)),
      { what: 'the branches to go' },
    );
    const before = await volumes();
    for (const refused of [await branch(other), await coppice.call('POST', '/projects', { project: {} })]) {
      assert.equal(refused.status, 422);
      assert.match(refused.body.message, /storage pool is too full for a new (branch|project)/);
    }
    assert.deepEqual(await volumes(), before);
    assert.equal((await coppice.must('GET', `${other.path}/branches`)).branches.length, 1);
  });

  it('lets what runs go on', async () => {
    await query(other.uri, 'insert into kept values (2)');
    assert.equal((await query(other.uri, 'select * from kept')).length, 2);
    await coppice.must('POST', `${other.branch_path}/roles`, { role: { name: 'later' } });
    await until(async () => (await other.operations())[0].status === 'finished', { what: 'the role' });
    await coppice.must('POST', `${other.endpoint_path}/suspend`);
    await other.untilState('idle');
  });

  it('takes new things again once something was deleted', async () => {
    await coppice.must('DELETE', greedy.path);
    await until(async () => (await branch(other)).status === 201, { what: 'a branch' });
    await until(async () => (await other.operations()).every(({ status }) => status !== 'running'), {
      what: 'its end',
    });
    assert.equal((await query(other.uri, 'select * from kept')).length, 2);
  });
});
