import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { bootstrap } from '../../src/actions/bootstrap.ts';
import { addCallers } from '../support/api-callers.ts';
import { startTestApi, type TestApi } from '../support/api-server.ts';

describe('the account of a caller', () => {
  let api: TestApi;
  before(async () => {
    api = await startTestApi();
  });
  after(() => api?.close());

  it('is a person with one organization at first', async () => {
    const { body: me } = await api.call('GET', '/users/me');
    assert.deepEqual([me.email, me.login], ['owner@example.test', 'owner@example.test']);
    const { body } = await api.call('GET', '/users/me/organizations');
    assert.equal(body.organizations.length, 1);
    const { body: organization } = await api.call('GET', `/organizations/${body.organizations[0].id}`);
    assert.deepEqual(organization, body.organizations[0]);
    assert.match(organization.handle, new RegExp(`-${organization.id}$`));
    assert.equal((await api.call('GET', '/organizations/org-unknown-1')).status, 404);
  });

  it('is told what its credential is', async () => {
    const { body } = await api.call('POST', '/projects', { body: { project: {} } });
    const callers = await addCallers(api, body.project, body.project.id);
    const { body: me } = await api.call('GET', '/users/me');
    const auth = async (key: string) => (await api.call('GET', '/auth', { key })).body;
    assert.deepEqual(await auth(api.key), { account_id: me.id, auth_method: 'api_key_user' });
    for (const key of [callers.organization_key, callers.project_key]) {
      assert.deepEqual(await auth(key), { account_id: body.project.org_id, auth_method: 'api_key_org' });
      const { body: list } = await api.call('GET', '/users/me/organizations', { key });
      assert.deepEqual(
        list.organizations.map((organization: { id: string }) => organization.id),
        [body.project.org_id],
      );
    }
  });

  it('finds one region, which is the default', async () => {
    const { body } = await api.call('GET', '/regions');
    assert.deepEqual(
      body.regions.map((region: { region_id: string; default: boolean }) => [region.region_id, region.default]),
      [['local', true]],
    );
  });

  it('is told of parts that are left out in the way that clients understand', async () => {
    const { body } = await api.call('POST', '/projects', { body: { project: {} } });
    const branch = `/projects/${body.project.id}/branches/${body.branch.id}`;
    for (const path of ['/auth', '/data-api/neondb']) {
      const off = await api.call('GET', branch + path);
      assert.deepEqual([off.status, /is not enabled$/.test(off.body.message)], [404, true]);
      const refused = await api.call('POST', branch + path);
      assert.deepEqual([refused.status, /is not available/.test(refused.body.message)], [501, true]);
    }
    for (const path of ['/buckets', '/functions', '/credentials', '/snapshots']) {
      const absent = await api.call('GET', branch + path);
      assert.deepEqual([absent.status, absent.body.message], [404, 'this route does not exist']);
    }
    assert.deepEqual((await api.call('GET', `/projects/${body.project.id}/vpc_endpoints`)).body, { endpoints: [] });
  });
});

describe('the first user', () => {
  let api: TestApi;
  before(async () => {
    api = await startTestApi();
  });
  after(() => api?.close());

  const count = async (table: string) =>
    (await api.store.pool.query(`select count(*) from coppice.${table}`)).rows[0].count;

  it('is made once, however often and by however many processes', async () => {
    const results = await Promise.all(
      Array.from({ length: 5 }, () => bootstrap(api.store.store, { email: 'someone@example.test', api_key: api.key })),
    );
    assert.equal(new Set(results.map((result) => result.user_id)).size, 1);
    assert.deepEqual([await count('users'), await count('organizations'), await count('api_keys')], [1, 1, 1]);
  });

  it('gets another bootstrap key when that is changed, and never a revoked one', async () => {
    const secret = 'a-secret-of-some-length';
    await bootstrap(api.store.store, { email: 'x@example.test', api_key: secret });
    assert.equal((await api.call('GET', '/users/me', { key: secret })).status, 200);
    const { body: keys } = await api.call('GET', '/api_keys');
    await api.call('DELETE', `/api_keys/${keys.at(-1).id}`);
    assert.equal((await api.call('GET', '/users/me', { key: secret })).status, 401);
    await assert.rejects(bootstrap(api.store.store, { email: 'x@example.test', api_key: secret }), /was revoked/);
  });
});
