import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { lockSettledEndpoint } from '../../src/store/watched.ts';
import { startTestApi, type TestApi } from '../support/api-server.ts';
import { createSleepingProject, observeEndpoint, type TestProject } from '../support/project.ts';

describe('a decision of the platform about an endpoint that it looked at a while ago', () => {
  const started_at = new Date('2026-01-01T12:00:00Z');
  let api: TestApi;
  let project: TestProject;
  before(async () => {
    api = await startTestApi();
    project = await createSleepingProject(api);
    await api.store.pool.query('update coppice.endpoints set started_at = $1', [started_at]);
    await observeEndpoint(api, project.endpoint_id, 'running');
  });
  after(() => api?.close());

  const holds = (seen: Date) =>
    api.context.store
      .transaction()
      .execute((trx) =>
        lockSettledEndpoint(trx, { id: project.endpoint_id, project_id: project.id, started_at: seen }),
      );

  it('holds while the same server runs', async () => {
    assert.equal(await holds(started_at), true);
  });

  it('does not hold when another server was started since', async () => {
    assert.equal(await holds(new Date(started_at.getTime() - 1)), false);
  });

  it('does not hold when it was put to sleep since: nobody wants it woken', async () => {
    await observeEndpoint(api, project.endpoint_id, 'stopped');
    assert.equal(await holds(started_at), false);
    await observeEndpoint(api, project.endpoint_id, 'running');
  });
});
