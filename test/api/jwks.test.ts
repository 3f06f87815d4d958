import assert from 'node:assert/strict';
import { after, before, beforeEach, describe, it } from 'node:test';
import { openRolePassword } from '../../src/actions/role-secret.ts';
import { LIMITS } from '../../src/domain/limits.ts';
import { createVerifier, formatVerifier, parseVerifier } from '../../src/domain/scram-verifier.ts';
import { startTestApi, type TestApi } from '../support/api-server.ts';
import {
  createReadyBranch,
  createSleepingProject,
  finishOperations,
  observeEndpoint,
  type TestProject,
} from '../support/project.ts';

const JWKS_URL = 'https://issuer.example.test/.well-known/jwks.json';

describe('issuers of tokens', () => {
  let api: TestApi;
  let project: TestProject;
  before(async () => {
    api = await startTestApi();
  });
  after(() => api?.close());
  beforeEach(async () => {
    project = await createSleepingProject(api);
  });

  const jwks = (id = project.id) => `/projects/${id}/jwks`;
  const add = (body: object = {}) =>
    api.call('POST', jwks(), { body: { jwks_url: JWKS_URL, provider_name: 'example', ...body } });
  const list = async () => (await api.call('GET', jwks())).body.jwks;
  const roles = (branch_id = project.branch_id) =>
    api.context.store.selectFrom('roles').selectAll().where('branch_id', '=', branch_id).orderBy('name').execute();
  const names = async (branch_id?: string) => (await roles(branch_id)).map(({ name }) => name);

  it('are added, listed and removed', async () => {
    const { status, body } = await add({
      jwt_audience: 'us',
      branch_id: project.branch_id,
      role_names: ['app', 'app'],
    });
    assert.equal(status, 201);
    const { id, created_at, updated_at, ...rest } = body.jwks;
    assert.deepEqual(rest, {
      ...{ project_id: project.id, branch_id: project.branch_id, jwks_url: JWKS_URL, provider_name: 'example' },
      ...{ jwt_audience: 'us', role_names: ['app'] },
    });
    assert.equal(created_at, updated_at);
    assert.deepEqual(await list(), [body.jwks]);
    const removed = await api.call('DELETE', `${jwks()}/${id}`);
    assert.deepEqual([removed.status, removed.body], [200, body.jwks]);
    assert.deepEqual(await list(), []);
    assert.equal((await api.call('DELETE', `${jwks()}/${id}`)).status, 404);
    assert.equal((await api.call('DELETE', `${jwks()}/whatever`)).status, 404);
  });

  it('are those of one project', async () => {
    const { body } = await add();
    const other = await createSleepingProject(api);
    assert.deepEqual((await api.call('GET', jwks(other.id))).body.jwks, []);
    assert.equal((await api.call('DELETE', `${jwks(other.id)}/${body.jwks.id}`)).status, 404);
    const foreign = await add({ branch_id: other.branch_id });
    assert.deepEqual([foreign.status, foreign.body.message], [404, 'branch not found']);
  });

  it('bring the usual roles to every branch, and wake nobody for them', async () => {
    const child = await createReadyBranch(api, project, { name: 'child' }, [{ type: 'read_write' }]);
    const { body } = await add();
    assert.deepEqual(body.jwks.role_names, ['authenticator', 'authenticated', 'anonymous']);
    const expected = ['anonymous', 'authenticated', 'authenticator', 'neondb_owner'];
    assert.deepEqual(await names(), expected);
    assert.deepEqual(await names(child.branch.id), expected);
    const shown = body.operations.map((one: { action: string; endpoint_id: string }) => [one.action, one.endpoint_id]);
    assert.deepEqual(shown, [['apply_config', child.endpoints[0].id]]);
  });

  it('for one branch bring them to that branch, and none that are there', async () => {
    const child = await createReadyBranch(api, project, { name: 'child' });
    await observeEndpoint(api, project.endpoint_id, 'running');
    const first = await add({ branch_id: project.branch_id, role_names: ['app', 'neondb_owner'] });
    assert.equal(first.body.operations.length, 1);
    assert.deepEqual(await names(), ['app', 'neondb_owner']);
    assert.deepEqual(await names(child.branch.id), ['neondb_owner']);
    await finishOperations(api, project.id);
    const before = await roles();
    assert.deepEqual((await add({ role_names: ['app'], branch_id: project.branch_id })).body.operations, []);
    assert.deepEqual(await roles(), before);
  });

  it('bring no roles to a branch while it is restored: that is for later', async () => {
    const child = await createReadyBranch(api, project, { name: 'child' });
    const { status } = await api.call('POST', `/projects/${project.id}/branches/${child.branch.id}/restore`, {
      body: { source_branch_id: project.branch_id },
    });
    assert.equal(status, 200);
    assert.equal((await add()).status, 423);
    assert.deepEqual(await list(), []);
    assert.equal((await add({ branch_id: project.branch_id })).status, 201);
    await finishOperations(api, project.id);
    assert.equal((await add()).status, 201);
    assert.equal((await names(child.branch.id)).length, 4);
  });

  it('are refused where a branch would get more roles than it can have', async () => {
    const { store } = api.context;
    const many = Array.from({ length: LIMITS.roles_per_branch - 2 }, (_, at) => ({
      ...{ branch_id: project.branch_id, name: `role_${at}`, origin: 'sql' as const },
    }));
    await store.insertInto('roles').values(many).execute();
    assert.equal((await add()).body.code, 'ROLES_LIMIT_EXCEEDED');
    assert.equal((await add({ role_names: ['app'] })).status, 201);
  });

  it('bring no roles where that is not wanted', async () => {
    await observeEndpoint(api, project.endpoint_id, 'running');
    assert.deepEqual((await add({ skip_role_creation: true })).body.operations, []);
    assert.deepEqual(await names(), ['neondb_owner']);
  });

  it('bring roles whose password is kept for tokens, whatever the project does with passwords', async () => {
    project = await createSleepingProject(api, { store_passwords: false });
    const child = await createReadyBranch(api, project, { name: 'child' });
    await add({ role_names: ['app'] });
    for (const branch_id of [project.branch_id, child.branch.id]) {
      const role = (await roles(branch_id)).find(({ name }) => name === 'app')!;
      const password = openRolePassword(api.context.vault, role)!;
      const { salt, iterations } = parseVerifier(role.verifier!)!;
      assert.equal(formatVerifier(await createVerifier(password, { salt, iterations })), role.verifier);
    }
    const shown = await api.call(
      'GET',
      `/projects/${project.id}/branches/${project.branch_id}/roles/app/reveal_password`,
    );
    assert.equal(shown.status, 412);
    // What is copied from a protected branch gets another password, which is kept as well.
    await api.call('PATCH', `/projects/${project.id}/branches/${project.branch_id}`, {
      body: { branch: { protected: true } },
    });
    const copy = await createReadyBranch(api, project, { name: 'copy' });
    const [here, there] = await Promise.all(
      [project.branch_id, copy.branch.id].map(async (id) => (await roles(id)).find(({ name }) => name === 'app')!),
    );
    assert.notEqual(here!.verifier, there!.verifier);
    assert.notEqual(openRolePassword(api.context.vault, there!), undefined);
  });

  it('bring a role back that is still to be dropped', async () => {
    await add({ role_names: ['app'] });
    await api.call('DELETE', `/projects/${project.id}/branches/${project.branch_id}/roles/app`);
    await finishOperations(api, project.id);
    await add({ role_names: ['app'] });
    const role = (await roles()).find(({ name }) => name === 'app')!;
    assert.deepEqual([role.deleted_at, role.origin, role.can_login], [null, 'token', true]);
  });

  it('go with their branch, and with their project', async () => {
    const child = await createReadyBranch(api, project, { name: 'child' });
    await add({ branch_id: child.branch.id });
    const everywhere = (await add()).body.jwks;
    await api.call('DELETE', `/projects/${project.id}/branches/${child.branch.id}`);
    assert.deepEqual(await list(), [everywhere]);
    await api.call('DELETE', `/projects/${project.id}`);
    const { store } = api.context;
    assert.deepEqual(
      await store.selectFrom('project_jwks').select('id').where('project_id', '=', project.id).execute(),
      [],
    );
  });

  it('are bounded in number', async () => {
    for (let count = 0; count < LIMITS.jwks_per_project; count++) await add({ skip_role_creation: true });
    const { status, body } = await add();
    assert.deepEqual([status, body.code], [422, 'JWKS_LIMIT_EXCEEDED']);
    assert.equal((await list()).length, LIMITS.jwks_per_project);
  });

  for (const [name, body] of [
    ['a URL without TLS', { jwks_url: 'http://issuer.example.test/jwks.json' }],
    ['a URL with credentials', { jwks_url: 'https://me:secret@issuer.example.test/jwks.json' }],
    ['the address of a metadata service', { jwks_url: 'https://169.254.169.254/latest/meta-data' }],
    ['no URL', { jwks_url: 'issuer.example.test' }],
    ['no provider', { provider_name: undefined }],
    ['eleven roles', { role_names: Array.from({ length: 11 }, (_, at) => `role_${at}`) }],
    ['an empty audience', { jwt_audience: '' }],
  ] as const) {
    it(`are refused with ${name}`, async () => {
      assert.equal((await add(body)).status, 400);
      assert.deepEqual(await list(), []);
    });
  }

  it("are refused for the platform's own roles", async () => {
    assert.equal((await add({ role_names: ['cloud_admin'] })).status, 422);
  });
});
