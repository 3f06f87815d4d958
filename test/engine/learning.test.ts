import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { learnConfig, type ServedBranch } from '../../src/store/learned.ts';
import { findEndpointFacts, observeConfigApplied, observeEndpointRunning } from '../../src/store/observations.ts';
import { startTestApi, type TestApi } from '../support/api-server.ts';
import { createSleepingProject, finishOperations, observeEndpoint, type TestProject } from '../support/project.ts';

describe('what was seen in a server', () => {
  let api: TestApi;
  let project: TestProject;

  before(async () => {
    api = await startTestApi();
    project = await createSleepingProject(api);
    await observeEndpoint(api, project.endpoint_id, 'running');
    await restart();
    await apply();
  });
  after(() => api?.close());

  const restart = () =>
    observeEndpointRunning(api.context.store, project.endpoint_id, {
      started_at: new Date(),
      spec_hash: null,
      current_cu: 0.25,
    });
  const facts = async () => (await findEndpointFacts(api.context.store, project.endpoint_id))!;
  const apply = async () => {
    const { timeline_id, config_generation } = await facts();
    await observeConfigApplied(api.context.store, timeline_id, config_generation);
    await finishOperations(api, project.id);
  };
  const look = async (): Promise<ServedBranch> => {
    const { branch_id, timeline_id, started_at, config_generation } = await facts();
    return { endpoint_id: project.endpoint_id, branch_id, timeline_id, started_at, generation: config_generation };
  };
  const owner = (verifier: string) => ({ name: project.role, verifier, can_login: true, valid_until: null });
  const seen = (verifier: string) => ({
    roles: [owner(verifier)],
    databases: [{ name: project.database, owner_name: project.role }],
  });
  const roleRow = () =>
    api.context.store
      .selectFrom('roles')
      .select(['verifier', 'sealed_password'])
      .where('branch_id', '=', project.branch_id)
      .where('name', '=', project.role)
      .executeTakeFirstOrThrow();

  const resetPassword = async () => {
    const path = `/projects/${project.id}/branches/${project.branch_id}/roles/${project.role}/reset_password`;
    assert.equal((await api.call('POST', path)).status, 200);
  };

  it('is taken over', async () => {
    assert.equal(await learnConfig(api.context.store, await look(), seen('set in SQL')), true);
    assert.deepEqual(await roleRow(), { verifier: 'set in SQL', sealed_password: null });
  });

  it('is no news while a change waits to be applied', async () => {
    await resetPassword();
    const wanted = await roleRow();
    assert.equal(await learnConfig(api.context.store, await look(), seen('before the reset')), false);
    assert.deepEqual(await roleRow(), wanted);
    await apply();
  });

  it('is no news when a change was made and applied since the look', async () => {
    const before = await look();
    await resetPassword();
    await apply();
    const wanted = await roleRow();
    assert.equal(await learnConfig(api.context.store, before, seen('before the reset')), false);
    assert.deepEqual(await roleRow(), wanted);
  });

  it('is no news when the server was started again since the look', async () => {
    const before = await look();
    await restart();
    assert.equal(await learnConfig(api.context.store, before, seen('an earlier life')), false);
  });
});
