import assert from 'node:assert/strict';
import { after, before, beforeEach, describe, it } from 'node:test';
import { wakeEndpoint } from '../../src/actions/wake-endpoint.ts';
import { startTestApi, type TestApi } from '../support/api-server.ts';
import { createSleepingProject, finishOperations, observeEndpoint, type TestProject } from '../support/project.ts';

describe('quotas of a project', { timeout: 120_000 }, () => {
  let api: TestApi;
  let project: TestProject;
  before(async () => {
    api = await startTestApi();
  });
  after(() => api?.close());
  beforeEach(async () => {
    project = await createSleepingProject(api);
  });

  const setQuota = (quota: object) =>
    api.call('PATCH', `/projects/${project.id}`, { body: { project: { settings: { quota } } } });
  const use = (used: string, at = 'now()') =>
    api.store.pool.query(`select coppice.add_usage($1, $2, ${at}, ${used})`, [project.branch_id, project.id]);
  const start = () => api.call('POST', `/projects/${project.id}/endpoints/${project.endpoint_id}/start`);
  const wake = () => wakeEndpoint(api.context, project.endpoint_id);

  const QUOTAS = [
    ['active_time_seconds', 'active => 60000000', 60, 'ACTIVE_TIME_QUOTA_EXCEEDED'],
    ['compute_time_seconds', 'compute => 60000000', 60, 'COMPUTE_TIME_QUOTA_EXCEEDED'],
    ['written_data_bytes', 'written => 1000', 1000, 'WRITTEN_DATA_QUOTA_EXCEEDED'],
    ['data_transfer_bytes', 'sent => 1000', 1000, 'DATA_TRANSFER_QUOTA_EXCEEDED'],
  ] as const;
  for (const [name, used, limit, code] of QUOTAS) {
    it(`keep computes from being started when ${name} is used up, until it is raised`, async () => {
      const set = await setQuota({ [name]: limit });
      assert.deepEqual([set.status, set.body.project.settings.quota], [200, { [name]: limit }]);
      await use(used);
      const refused = await start();
      assert.deepEqual([refused.status, refused.body.code], [422, code], JSON.stringify(refused.body));
      assert.match(refused.body.message, /computes start again when it is raised, or at \d{4}-\d\d-01T00:00:00Z/);
      await assert.rejects(wake(), { code });
      await setQuota({ [name]: limit + 1 });
      assert.equal((await start()).status, 200);
    });
  }

  it('are of no effect at 0, and when they are taken away', async () => {
    await use('active => 60000000');
    for (const quota of [{ active_time_seconds: 0 }, {}]) {
      await setQuota({ active_time_seconds: 1 });
      assert.equal((await start()).status, 422);
      await setQuota(quota);
      assert.equal((await start()).status, 200);
      await finishOperations(api, project.id);
      await api.store.pool.query("update coppice.endpoints set observed_state = 'stopped'");
    }
  });

  it('begin anew with the month', async () => {
    await setQuota({ active_time_seconds: 60 });
    await use('active => 60000000', "date_trunc('month', now(), 'UTC') - interval '1 second'");
    assert.equal((await start()).status, 200);
  });

  it('keep new endpoints, and branches with endpoints, from being made, and nothing else', async () => {
    await setQuota({ active_time_seconds: 60 });
    await use('active => 60000000');
    const endpoint = { branch_id: project.branch_id, type: 'read_only' };
    const replica = await api.call('POST', `/projects/${project.id}/endpoints`, { body: { endpoint } });
    assert.equal(replica.body.code, 'ACTIVE_TIME_QUOTA_EXCEEDED');
    const disabled = { ...endpoint, disabled: true };
    assert.equal(
      (await api.call('POST', `/projects/${project.id}/endpoints`, { body: { endpoint: disabled } })).status,
      201,
    );
    const branches = `/projects/${project.id}/branches`;
    const served = await api.call('POST', branches, { body: { endpoints: [{ type: 'read_write' }] } });
    assert.equal(served.body.code, 'ACTIVE_TIME_QUOTA_EXCEEDED');
    assert.equal((await api.call('POST', branches)).status, 201);
    assert.equal((await api.call('GET', `/projects/${project.id}`)).status, 200);
  });

  it('keep a compute that runs from being restarted, and a snapshot from being shown by a compute of its own', async () => {
    const made = await api.call('POST', `/projects/${project.id}/branches/${project.branch_id}/snapshot`, {
      body: { name: 'before' },
    });
    await finishOperations(api, project.id);
    await setQuota({ active_time_seconds: 60 });
    await use('active => 60000000');
    await observeEndpoint(api, project.endpoint_id, 'running');
    const restart = `/projects/${project.id}/endpoints/${project.endpoint_id}/restart`;
    assert.equal((await api.call('POST', restart)).body.code, 'ACTIVE_TIME_QUOTA_EXCEEDED');
    const restore = `/projects/${project.id}/snapshots/${made.body.snapshot.id}/restore`;
    assert.equal((await api.call('POST', restore, { body: {} })).body.code, 'ACTIVE_TIME_QUOTA_EXCEEDED');
    assert.equal((await api.call('POST', restore, { body: { finalize_restore: true } })).status, 200);
  });

  it('of size are for each branch alone', async () => {
    await setQuota({ logical_size_bytes: 1000 });
    await api.store.pool.query(
      'update coppice.timelines set logical_size_bytes = 1000 where id = (select timeline_id from coppice.branches where id = $1)',
      [project.branch_id],
    );
    const refused = await start();
    assert.equal(refused.body.code, 'LOGICAL_SIZE_QUOTA_EXCEEDED');
    assert.match(refused.body.message, /used:"1000 bytes", quota:"1000 bytes"/);
    await api.store.pool.query('update coppice.timelines set logical_size_bytes = 999');
    assert.equal((await start()).status, 200);
  });
});
