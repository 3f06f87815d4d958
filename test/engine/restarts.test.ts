import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { isProcess } from '../../src/drivers/compute/process/processes.ts';
import { makeStartedDirectory, removeDataDirectory, startCoppice, type TestCoppice } from '../support/coppice.ts';
import { connect, query, refusal } from '../support/customer.ts';
import { createLiveProject, dataDirectoryOf, type LiveProject, postmasterPid } from '../support/live-project.ts';
import { until } from '../support/until.ts';

describe('Coppice is started again', { timeout: 240_000 }, () => {
  let data_directory: string;
  let coppice: TestCoppice;
  let project: LiveProject;
  let other: LiveProject;

  const start = async (flags: string[] = []) => {
    coppice = await startCoppice({ data_directory, flags });
  };
  /** Another Coppice listens on another port. */
  const here = (uri: string) => {
    const url = new URL(uri);
    url.port = String(coppice.pg_port);
    return url.href;
  };
  const pidOf = async ({ uri }: LiveProject) => postmasterPid(await dataDirectoryOf(here(uri)));
  const stateOf = async ({ endpoint_path }: LiveProject) =>
    (await coppice.must('GET', endpoint_path)).endpoint.current_state;

  before(async () => {
    data_directory = await makeStartedDirectory();
    await start();
    project = await createLiveProject(coppice);
    other = await createLiveProject(coppice);
  });
  after(async () => {
    await coppice?.stop();
    await removeDataDirectory(data_directory);
  });

  it('after it was killed, with the servers that ran on, and without the connections that it carried', async () => {
    const pids = [await pidOf(project), await pidOf(other)];
    await using client = await connect(here(project.uri));
    await client.query('create table kept as select 1 as one');
    await coppice.kill();
    await client.broken;
    assert.deepEqual(pids.map(isProcess), [true, true]);

    await start(['--keep-computes']);
    assert.equal(await stateOf(project), 'active');
    assert.deepEqual(await query(here(project.uri), 'select one from kept'), [{ one: 1 }]);
    assert.deepEqual([await pidOf(project), await pidOf(other)], pids);
    await coppice.must('POST', `${other.endpoint_path}/suspend`);
    await coppice.settled(other.id);
    assert.equal(isProcess(pids[1]!), false, 'a server that was taken over can be stopped');
    assert.deepEqual(await query(here(other.uri), 'select 1 as one'), [{ one: 1 }]);
  });

  it('after it was told to leave its servers, which it finds again', async () => {
    const pid = await pidOf(project);
    await coppice.stop();
    assert.equal(isProcess(pid), true);
    await start();
    assert.equal(await stateOf(project), 'active');
    assert.equal(await pidOf(project), pid);
  });

  it('after it was stopped and its servers with it; what was done in SQL just before is known', async () => {
    const pids = [await pidOf(project), await pidOf(other)];
    await query(here(project.uri), "create role late login password 'made just now'");
    await query(here(project.uri), 'create database late_db');
    await coppice.stop();
    assert.deepEqual(pids.map(isProcess), [false, false]);

    await start();
    assert.deepEqual([await stateOf(project), await stateOf(other)], ['idle', 'idle']);
    const uri = new URL(here(project.uri));
    uri.username = 'late';
    uri.password = encodeURIComponent('made just now');
    uri.pathname = '/late_db';
    assert.equal(await refusal(uri.href), undefined);
  });

  it('after what it knew was changed behind its back, and stops what is not meant to run', async () => {
    const [deleted, unknown] = [await pidOf(other), await pidOf(project)];
    await coppice.kill();
    // Its own database runs on, as the computes do.
    await coppice.ownDatabase(`
      update coppice.endpoints set deleted_at = now() where id = '${other.endpoint_id}';
      update coppice.endpoints set observed_state = 'stopped' where id = '${project.endpoint_id}'`);
    await start();
    await until(() => !isProcess(deleted) && !isProcess(unknown), { what: 'the servers to be stopped' });
    assert.equal((await coppice.call('GET', other.endpoint_path)).status, 404);
    assert.deepEqual(await query(here(project.uri), 'select one from kept'), [{ one: 1 }]);
  });
});
