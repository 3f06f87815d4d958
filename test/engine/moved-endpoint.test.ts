import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import type { EngineContext } from '../../src/engine/context.ts';
import { applyConfig } from '../../src/engine/operations/apply-config.ts';
import { startCompute } from '../../src/engine/operations/start-compute.ts';
import { startTestApi, type TestApi } from '../support/api-server.ts';
import { createReadyBranch, createSleepingProject, type TestProject } from '../support/project.ts';

describe('what was to happen to an endpoint that has been moved to another branch since', () => {
  let api: TestApi;
  let project: TestProject;
  before(async () => {
    api = await startTestApi();
    project = await createSleepingProject(api);
  });
  after(() => api?.close());

  it('does not happen on the other branch, which it does not claim', async () => {
    const endpoint = `/projects/${project.id}/endpoints/${project.endpoint_id}`;
    const { branch } = await createReadyBranch(api, project);
    await api.call('POST', `${endpoint}/start`);
    await api.call('PATCH', endpoint, { body: { endpoint: { branch_id: branch.id } } });
    const [start] = await api.context.store
      .selectFrom('operations')
      .selectAll()
      .where('project_id', '=', project.id)
      .where('action', '=', 'start_compute')
      .where('finished_at', 'is', null)
      .execute();
    // Only the store is there: whoever goes further than to look at the endpoint fails.
    const ctx = { store: api.context.store } as EngineContext;
    for (const run of [startCompute, applyConfig]) {
      assert.equal(await run(ctx, start!, new AbortController().signal), 'skipped');
    }
  });
});
