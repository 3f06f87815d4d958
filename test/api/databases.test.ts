import assert from 'node:assert/strict';
import { after, before, beforeEach, describe, it } from 'node:test';
import { LIMITS } from '../../src/domain/limits.ts';
import { startTestApi, type TestApi } from '../support/api-server.ts';
import { createReadyBranch, createSleepingProject, observeEndpoint, type TestProject } from '../support/project.ts';

const actions = (body: { operations: { action: string }[] }) => body.operations.map(({ action }) => action);

describe('databases', () => {
  let api: TestApi;
  let project: TestProject;
  before(async () => {
    api = await startTestApi();
  });
  after(() => api?.close());
  beforeEach(async () => {
    project = await createSleepingProject(api);
  });

  const databases = (branch_id = project.branch_id) => `/projects/${project.id}/branches/${branch_id}/databases`;
  const create = (name: string, owner_name = project.role) =>
    api.call('POST', databases(), { body: { database: { name, owner_name } } });
  const patch = (name: string, database: unknown) =>
    api.call('PATCH', `${databases()}/${encodeURIComponent(name)}`, { body: { database } });

  it('are made for a role, and the server follows', async () => {
    const { status, body } = await create('shop');
    assert.equal(status, 201);
    assert.equal(Number.isSafeInteger(body.database.id), true);
    assert.equal(body.database.owner_name, project.role);
    assert.deepEqual(actions(body), ['apply_config', 'suspend_compute']);
    const { body: shown } = await api.call('GET', `${databases()}/shop`);
    assert.deepEqual(shown.database, body.database);
    const { body: list } = await api.call('GET', databases());
    assert.deepEqual(
      list.databases.map(({ name }: { name: string }) => name),
      ['neondb', 'shop'],
    );
  });

  it('are made on a running compute without stopping it, and without a compute for the next start', async () => {
    await observeEndpoint(api, project.endpoint_id, 'running');
    assert.deepEqual(actions((await create('one')).body), ['apply_config']);
    const { branch } = await createReadyBranch(api, project);
    const made = await api.call('POST', databases(branch.id), {
      body: { database: { name: 'two', owner_name: project.role } },
    });
    assert.deepEqual([made.status, made.body.operations], [201, []]);
  });

  it('are refused for an unknown owner, whose name is told', async () => {
    for (const owner of ['nobody', 'neon_superuser', 'cloud_admin']) {
      const { status, body } = await create('shop', owner);
      assert.equal(status, 404);
      assert.equal(body.message, `database owner not found; role_name:"${owner}"`);
    }
  });

  it('are refused under a name that is taken, reserved, or no name', async () => {
    for (const [name, status] of [
      ['neondb', 409],
      ['postgres', 422],
      ['template0', 422],
      ['template1', 422],
      ['', 400],
      ['x'.repeat(64), 400],
      ['é'.repeat(32), 400],
    ] as const) {
      assert.equal((await create(name)).status, status, name);
    }
    const answers = await Promise.all([1, 2].map(() => create('raced')));
    assert.deepEqual(answers.map(({ status }) => status).sort(), [201, 409]);
  });

  it('are found by any name in a path', async () => {
    for (const name of ['with space/and slash', '%41', '漢'.repeat(21), '🌳'.repeat(15)]) {
      assert.equal((await create(name)).status, 201, name);
      assert.equal((await api.call('GET', `${databases()}/${encodeURIComponent(name)}`)).body.database.name, name);
    }
  });

  it('end at the limit of a branch', async () => {
    const many = Array.from({ length: LIMITS.databases_per_branch - 1 }, (_, index) => ({
      branch_id: project.branch_id,
      name: `d${index}`,
      owner_name: project.role,
      origin: 'sql' as const,
    }));
    await api.context.store.insertInto('databases').values(many).execute();
    const { status, body } = await create('one-more');
    assert.deepEqual([status, body.code], [422, 'DATABASES_LIMIT_EXCEEDED']);
  });

  it('are renamed and given to another role', async () => {
    await api.call('POST', `/projects/${project.id}/branches/${project.branch_id}/roles`, {
      body: { role: { name: 'casey' } },
    });
    const { status, body } = await patch('neondb', { name: 'shop', owner_name: 'casey' });
    assert.equal(status, 200);
    assert.deepEqual([body.database.name, body.database.owner_name], ['shop', 'casey']);
    assert.deepEqual(actions(body), ['apply_config', 'suspend_compute']);
    assert.equal((await api.call('GET', `${databases()}/neondb`)).status, 404);
    assert.equal((await create('neondb')).status, 201);
  });

  it('keep what they are when a change changes nothing', async () => {
    const { body: before } = await api.call('GET', `${databases()}/neondb`);
    for (const change of [{}, { name: 'neondb' }, { owner_name: project.role }]) {
      const { status, body } = await patch('neondb', change);
      assert.equal(status, 200);
      assert.deepEqual(body, { database: before.database, operations: [] });
    }
  });

  it('are not changed to a name or an owner that cannot be', async () => {
    await create('other');
    for (const [change, status] of [
      [{ name: 'other' }, 409],
      [{ name: 'postgres' }, 422],
      [{ name: '' }, 400],
      [{ owner_name: 'nobody' }, 404],
    ] as const) {
      assert.equal((await patch('neondb', change)).status, status, JSON.stringify(change));
    }
    assert.equal((await patch('unknown', { name: 'known' })).status, 404);
  });

  it('are deleted; again, it is 204; the name is free at once', async () => {
    const { body: first } = await create('shop');
    const { status, body } = await api.call('DELETE', `${databases()}/shop`);
    assert.equal(status, 200);
    assert.deepEqual(actions(body), ['apply_config', 'suspend_compute']);
    const again = await api.call('DELETE', `${databases()}/shop`);
    assert.deepEqual([again.status, again.body], [204, undefined]);
    assert.equal((await api.call('DELETE', `${databases()}/postgres`)).status, 204);
    const { status: made, body: second } = await create('shop');
    assert.equal(made, 201);
    assert.notEqual(second.database.id, first.database.id);
  });

  it('of a child have ids of their own', async () => {
    const { branch, databases: copied } = await createReadyBranch(api, project);
    const { body } = await api.call('GET', databases());
    assert.notEqual(copied[0].id, body.databases[0].id);
    assert.equal(copied[0].branch_id, branch.id);
  });

  it('of an unknown branch are 404', async () => {
    for (const [method, path] of [
      ['GET', ''],
      ['GET', '/neondb'],
      ['DELETE', '/neondb'],
    ] as const) {
      const { status, body } = await api.call(method, `${databases('br-no-such-12345678')}${path}`);
      assert.deepEqual([status, body.message], [404, 'branch not found']);
    }
  });
});
