import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { ramBytes } from '../../src/domain/compute-size.ts';
import { limitsOf } from '../support/control-groups.ts';
import { removeDataDirectory, startCoppice, type TestCoppice } from '../support/coppice.ts';
import { connect, query } from '../support/customer.ts';
import { createLiveProject, dataDirectoryOf, type LiveProject, postmasterPid } from '../support/live-project.ts';
import { until } from '../support/until.ts';

describe('a compute', { timeout: 180_000 }, () => {
  let coppice: TestCoppice;
  let project: LiveProject;

  before(async () => {
    coppice = await startCoppice();
    project = await createLiveProject(coppice, {
      default_endpoint_settings: { autoscaling_limit_min_cu: 1, autoscaling_limit_max_cu: 1 },
    });
  });
  after(async () => {
    await coppice?.stop();
    if (coppice) await removeDataDirectory(coppice.data_directory);
  });

  const change = async (endpoint: object): Promise<string[]> => {
    const { operations } = await coppice.must('PATCH', project.endpoint_path, { endpoint });
    await coppice.settled(project.id);
    return operations.map(({ action }: { action: string }) => action);
  };
  const show = async (name: string) => (await query(project.uri, `show ${name}`))[0][name];
  const pid = async () => postmasterPid(await dataDirectoryOf(project.uri));

  it('has the connections of its size', async () => {
    assert.equal(await show('max_connections'), '450');
  });

  it('of another size starts again once, with the connections and limits of that', async () => {
    await using client = await connect(project.uri);
    const before = await pid();
    assert.deepEqual(await change({ autoscaling_limit_min_cu: 0.25, autoscaling_limit_max_cu: 2 }), [
      'suspend_compute',
      'start_compute',
    ]);
    assert.equal(await client.broken, '57P01');
    assert.equal(await show('max_connections'), '901');
    assert.notEqual(await pid(), before);
    if (!coppice.output().includes('not enforced')) {
      await until(async () => limitsOf(await pid()).cpu === 2, { what: 'the limit of CPU time' });
      assert.deepEqual(limitsOf(await pid()), { cpu: 2, memory_bytes: ramBytes(2) });
    }
  });

  it('that sleeps has another size from its next start on', async () => {
    await project.suspend();
    await change({ autoscaling_limit_min_cu: 0.5, autoscaling_limit_max_cu: 0.5 });
    assert.equal(await project.state(), 'idle');
    assert.equal(await show('max_connections'), '225');
  });

  it('learns of a setting at once where that can be, and keeps its connections', async () => {
    await using client = await connect(project.uri);
    const before = await pid();
    assert.deepEqual(await change({ settings: { pg_settings: { work_mem: '7MB' } } }), ['apply_config']);
    await until(async () => (await client.query('show work_mem')).rows[0].work_mem === '7MB', { what: 'the setting' });
    assert.equal(await pid(), before);
    assert.deepEqual(await change({ settings: { pg_settings: {} } }), ['apply_config']);
    await until(async () => (await client.query('show work_mem')).rows[0].work_mem !== '7MB', { what: 'the default' });
  });

  it('starts again for a setting that needs it', async () => {
    await using client = await connect(project.uri);
    const pg_settings = { max_locks_per_transaction: '100', work_mem: '9MB' };
    assert.deepEqual(await change({ settings: { pg_settings } }), ['suspend_compute', 'start_compute']);
    assert.equal(await client.broken, '57P01');
    assert.equal(await show('max_locks_per_transaction'), '100');
    assert.equal(await show('work_mem'), '9MB');
    await coppice.must('POST', `${project.endpoint_path}/restart`);
    await coppice.settled(project.id);
    assert.equal(await show('max_locks_per_transaction'), '100');
  });

  it('loads the libraries of its project when it starts, and has in memory again what it had', async () => {
    const preload_libraries = { enabled_libraries: ['pg_prewarm'] };
    await coppice.must('PATCH', project.path, { project: { settings: { preload_libraries } } });
    assert.equal(await show('shared_preload_libraries'), 'pg_stat_statements', 'it goes on as it is');
    await project.suspend();
    assert.equal(await show('shared_preload_libraries'), 'pg_stat_statements,pg_prewarm');
    await query(project.uri, 'create extension pg_buffercache; create table kept as select generate_series(1, 100000)');
    await project.suspend();
    const pages = `select count(*)::int as count from pg_buffercache where relfilenode = pg_relation_filenode('kept')`;
    await until(async () => (await query(project.uri, pages))[0].count > 100, { what: 'its pages to be in memory' });
  });

  it('is not touched by what does not concern its server', async () => {
    await using client = await connect(project.uri);
    assert.deepEqual(await change({ name: 'renamed' }), []);
    assert.deepEqual(await change({ autoscaling_limit_min_cu: 0.5, autoscaling_limit_max_cu: 0.5 }), []);
    assert.equal((await client.query('select 1 as one')).rows[0].one, 1);
  });

  it('serves connections during many changes at once, and ends with the last of them', async () => {
    const sizes = [0.25, 0.5, 1, 2, 0.25, 1];
    await Promise.all(
      sizes.map((cu) =>
        coppice.must('PATCH', project.endpoint_path, {
          endpoint: { autoscaling_limit_min_cu: cu, autoscaling_limit_max_cu: cu },
        }),
      ),
    );
    assert.deepEqual(await query(project.uri, 'select 1 as one'), [{ one: 1 }]);
    await coppice.settled(project.id);
    const { endpoint } = await coppice.must('GET', project.endpoint_path);
    const expected: Record<number, string> = { 0.25: '112', 0.5: '225', 1: '450', 2: '901' };
    assert.equal(await show('max_connections'), expected[endpoint.autoscaling_limit_max_cu]);
  });
});
