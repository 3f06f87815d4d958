import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { startTestApi, type TestApi } from '../support/api-server.ts';
import { addKey, addOrganization, addPerson, type Person } from '../support/people.ts';

describe('a project that goes to another organization', () => {
  let api: TestApi;
  before(async () => {
    api = await startTestApi();
  });
  after(() => api?.close());

  const createProject = async (key?: string) =>
    (await api.call('POST', '/projects', { key, body: { project: {} } })).body.project;
  const offer = (project_id: string, body?: object, key?: string) =>
    api.call('POST', `/projects/${project_id}/transfer_requests`, { key, body });
  const take = (project_id: string, request_id: string, key: string, body?: object) =>
    api.call('PUT', `/projects/${project_id}/transfer_requests/${request_id}`, { key, body });
  const statusOf = async (project_id: string, key?: string) =>
    (await api.call('GET', `/projects/${project_id}`, { key })).status;
  /** The admin of an organisation, who is one of nothing else. */
  const someoneElse = async (): Promise<Person & { org_id: string }> => {
    const org_id = await addOrganization(api);
    return { org_id, ...(await addPerson(api, { organization_id: org_id, role: 'admin' })) };
  };
  const join = (organization_id: string, user_id: string, role: 'admin' | 'member') =>
    api.store.store.insertInto('memberships').values({ organization_id, user_id, role }).execute();

  it('is taken by whoever was given the request, once', async () => {
    const project = await createProject();
    const other = await someoneElse();
    const { status, body: request } = await offer(project.id);
    assert.equal(status, 201);
    assert.equal(Date.parse(request.expires_at) - Date.parse(request.created_at), 86_400_000);
    assert.equal(await statusOf(project.id, other.key), 404);
    const taken = await take(project.id, request.id, other.key);
    assert.deepEqual([taken.status, taken.body], [204, undefined]);
    const { body } = await api.call('GET', `/projects/${project.id}`, { key: other.key });
    assert.equal(body.project.org_id, other.org_id);
    assert.equal(await statusOf(project.id), 404);
    assert.equal((await take(project.id, request.id, api.key)).status, 404);
  });

  it('is taken by the key of an organization, too', async () => {
    const project = await createProject();
    const other = await someoneElse();
    const key = await addKey(api, other.id, { organization_id: other.org_id });
    const { body: request } = await offer(project.id);
    assert.equal((await take(project.id, request.id, key)).status, 204);
    assert.equal(await statusOf(project.id, key), 200);
  });

  it('leaves keys for it alone, and other requests for it, without effect at once', async () => {
    const project = await createProject();
    const { body: key } = await api.call('POST', `/organizations/${project.org_id}/api_keys`, {
      body: { key_name: 'ci', project_id: project.id },
    });
    const other = await someoneElse();
    const [first, second] = [(await offer(project.id)).body, (await offer(project.id)).body];
    assert.equal(await statusOf(project.id, key.key), 200);
    await take(project.id, first.id, other.key);
    assert.equal(await statusOf(project.id, key.key), 401);
    const { body: keys } = await api.call('GET', `/organizations/${project.org_id}/api_keys`);
    assert.equal(
      keys.some(({ id }: { id: number }) => id === key.id),
      false,
    );
    assert.equal((await take(project.id, second.id, api.key)).status, 404);
  });

  it('leaves its webhooks behind, and those of the organization alone', async () => {
    const project = await createProject();
    const other = await someoneElse();
    const hook = { url: 'https://hooks.example.test/' };
    await api.call('POST', `/projects/${project.id}/webhooks`, { body: hook });
    await api.call('POST', `/organizations/${project.org_id}/webhooks`, { body: hook });
    await take(project.id, (await offer(project.id)).body.id, other.key);
    const { rows } = await api.store.pool.query('select project_id from coppice.webhooks');
    assert.deepEqual(rows, [{ project_id: null }]);
    await api.store.pool.query('delete from coppice.webhooks');
  });

  it('stays shared with those whom it was shared with', async () => {
    const project = await createProject();
    const [friend, other] = [await addPerson(api), await someoneElse()];
    await api.call('POST', `/projects/${project.id}/permissions`, { body: { email: friend.email } });
    const { body: request } = await offer(project.id);
    await take(project.id, request.id, other.key);
    assert.equal(await statusOf(project.id, friend.key), 200);
    const { body } = await api.call('GET', `/projects/${project.id}/permissions`, { key: other.key });
    assert.equal(body.project_permissions[0].granted_to_email, friend.email);
  });

  it('is not taken by a request that is unknown, of another project, or expired', async () => {
    const [project, another] = [await createProject(), await createProject()];
    const other = await someoneElse();
    const { body: request } = await offer(project.id, { ttl_seconds: 60 });
    const unknown = '00000000-0000-4000-8000-000000000000';
    for (const [project_id, request_id] of [
      [project.id, unknown],
      [another.id, request.id],
      ['no-such-project-12345678', request.id],
    ]) {
      const { status, body } = await take(project_id, request_id, other.key);
      assert.deepEqual([status, body.message], [404, 'transfer request not found']);
    }
    await api.store.pool.query("update coppice.transfer_requests set expires_at = now() - interval '1 second'");
    assert.equal((await take(project.id, request.id, other.key)).status, 404);
    assert.equal(await statusOf(project.id), 200);
  });

  it('goes to the organization that is named where there are several', async () => {
    const project = await createProject();
    const other = await someoneElse();
    const second = await addOrganization(api);
    await join(second, other.id, 'member');
    const { body: request } = await offer(project.id);
    const unclear = await take(project.id, request.id, other.key);
    assert.deepEqual([unclear.status, /org_id is required/.test(unclear.body.message)], [400, true]);
    const foreign = await take(project.id, request.id, other.key, { org_id: project.org_id });
    assert.deepEqual([foreign.status, foreign.body.message], [404, 'organization not found']);
    assert.equal((await take(project.id, request.id, other.key, { org_id: second })).status, 204);
    const { body } = await api.call('GET', `/projects/${project.id}`, { key: other.key });
    assert.equal(body.project.org_id, second);
  });

  it('goes nowhere where it is already', async () => {
    const project = await createProject();
    const { body: request } = await offer(project.id);
    assert.equal((await take(project.id, request.id, api.key)).status, 422);
    assert.equal(await statusOf(project.id), 200);
  });

  it('is one of several that go together, or none goes', async () => {
    const other = await someoneElse();
    const [one, two, three] = [await createProject(), await createProject(), await createProject()];
    const owner = (await api.call('GET', '/users/me')).body.id;
    const give = (project_ids: string[], destination_org_id = other.org_id) =>
      api.call('POST', `/organizations/${one.org_id}/projects/transfer`, { body: { destination_org_id, project_ids } });
    const closed = await give([one.id]);
    assert.deepEqual([closed.status, closed.body.message], [404, 'organization not found']);
    await join(other.org_id, owner, 'member');
    try {
      const missing = await give([one.id, 'no-such-project-12345678']);
      assert.deepEqual([missing.status, missing.body.message], [404, 'project not found']);
      assert.equal(await statusOf(one.id, other.key), 404);
      const given = await give([one.id, two.id, one.id]);
      assert.deepEqual([given.status, given.body], [200, {}]);
      for (const { id } of [one, two]) assert.equal(await statusOf(id, other.key), 200);
      assert.equal(await statusOf(three.id, other.key), 404);
      assert.equal((await give([one.id])).status, 404);
      const own = { destination_org_id: other.org_id, project_ids: [three.id] };
      assert.equal((await api.call('POST', '/users/me/projects/transfer', { body: own })).status, 200);
      assert.equal(await statusOf(three.id, other.key), 200);
      // A member there cannot give it away again.
      const back = { destination_org_id: one.org_id, project_ids: [three.id] };
      assert.equal((await api.call('POST', '/users/me/projects/transfer', { body: back })).status, 403);
    } finally {
      await api.store.store.deleteFrom('memberships').where('organization_id', '=', other.org_id).execute();
    }
  });

  it('goes to one of two who take it at the same time', async () => {
    const project = await createProject();
    const [one, two] = [await someoneElse(), await someoneElse()];
    const { body: request } = await offer(project.id);
    const answers = await Promise.all([take(project.id, request.id, one.key), take(project.id, request.id, two.key)]);
    assert.deepEqual(answers.map(({ status }) => status).sort(), [204, 404]);
  });

  it('gets no key of its old organization while it leaves', async () => {
    for (let round = 0; round < 10; round += 1) {
      const project = await createProject();
      const other = await someoneElse();
      const { body: request } = await offer(project.id);
      const [made] = await Promise.all([
        api.call('POST', `/organizations/${project.org_id}/api_keys`, {
          body: { key_name: 'late', project_id: project.id },
        }),
        take(project.id, request.id, other.key),
      ]);
      if (made.status === 200) assert.equal(await statusOf(project.id, made.body.key), 401);
      else assert.equal(made.status, 404);
    }
  });
});
