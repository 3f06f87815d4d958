import assert from 'node:assert/strict';
import { after, before, beforeEach, describe, it } from 'node:test';
import { wakeEndpoint } from '../../src/actions/wake-endpoint.ts';
import { startTestApi, type TestApi } from '../support/api-server.ts';
import { createSleepingProject, finishOperations, observeEndpoint, type TestProject } from '../support/project.ts';

describe('waking an endpoint', () => {
  let api: TestApi;
  let project: TestProject;
  before(async () => {
    api = await startTestApi();
  });
  after(() => api?.close());
  beforeEach(async () => {
    project = await createSleepingProject(api);
  });

  const wake = () => wakeEndpoint(api.context, project.endpoint_id);
  const show = async (id: string) => (await api.call('GET', `/projects/${project.id}/operations/${id}`)).body.operation;

  it('is one start, whoever asks: two hundred connections and the API', async () => {
    const started = api.call('POST', `/projects/${project.id}/endpoints/${project.endpoint_id}/start`);
    const woken = await Promise.all(Array.from({ length: 200 }, wake));
    const ids = new Set([...woken.map(({ operation_id }) => operation_id), (await started).body.operations[0].id]);
    assert.equal(ids.size, 1);
    assert.equal((await show([...ids][0])).action, 'start_compute');
  });

  it('asks for no operation while it runs', async () => {
    await observeEndpoint(api, project.endpoint_id, 'running');
    assert.deepEqual(await wake(), { operation_id: undefined });
  });

  it('queues a start behind a suspend that is under way', async () => {
    await observeEndpoint(api, project.endpoint_id, 'running');
    await api.call('POST', `/projects/${project.id}/endpoints/${project.endpoint_id}/suspend`);
    await observeEndpoint(api, project.endpoint_id, 'stopping');
    const [first, second] = [await wake(), await wake()];
    assert.ok(first.operation_id);
    assert.equal(second.operation_id, first.operation_id);
  });

  it('starts anew what a failed suspend left stopping', async () => {
    await observeEndpoint(api, project.endpoint_id, 'stopping');
    assert.equal((await show((await wake()).operation_id!)).action, 'start_compute');
  });

  it('starts anew after the last start has ended', async () => {
    const first = await wake();
    await finishOperations(api, project.id);
    await observeEndpoint(api, project.endpoint_id, 'stopped');
    assert.notEqual((await wake()).operation_id, first.operation_id);
  });

  it('is refused for one that is disabled, deleted, or never was', async () => {
    const path = `/projects/${project.id}/endpoints/${project.endpoint_id}`;
    await api.call('PATCH', path, { body: { endpoint: { disabled: true } } });
    await assert.rejects(wake(), { kind: 'endpoint_disabled' });
    await api.call('DELETE', path);
    await assert.rejects(wake(), { kind: 'not_found' });
    await assert.rejects(wakeEndpoint(api.context, 'ep-no-such-12345678'), { kind: 'not_found' });
  });

  it('is refused once the project is deleted', async () => {
    await api.call('DELETE', `/projects/${project.id}`);
    await assert.rejects(wake(), { kind: 'not_found' });
  });
});
