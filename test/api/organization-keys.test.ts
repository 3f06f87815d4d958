import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { startTestApi, type TestApi } from '../support/api-server.ts';
import { addOrganization, addPerson } from '../support/people.ts';

describe('API keys of an organization', () => {
  let api: TestApi;
  let org_id: string;
  before(async () => {
    api = await startTestApi();
    const { body } = await api.call('GET', '/users/me/organizations');
    org_id = body.organizations[0].id;
  });
  after(() => api?.close());

  const keys = () => `/organizations/${org_id}/api_keys`;
  const create = (body: object, key?: string) => api.call('POST', keys(), { key, body });
  const createProject = async () => (await api.call('POST', '/projects', { body: { project: {} } })).body.project;
  const statusOf = async (path: string, key: string) => (await api.call('GET', path, { key })).status;

  it('act for its admins on all of its projects, and tell their secret once', async () => {
    const { status, body } = await create({ key_name: 'deploy' });
    assert.equal(status, 200);
    assert.match(body.key, /^napi_[0-9a-f]{64}$/);
    assert.equal('project_id' in body, false);
    const project = await createProject();
    assert.equal(await statusOf(`/projects/${project.id}`, body.key), 200);
    assert.equal((await api.call('DELETE', `/projects/${project.id}`, { key: body.key })).status, 200);
    const list = await api.call('GET', keys());
    const listed = list.body.find((key: { id: number }) => key.id === body.id);
    assert.deepEqual([listed.name, listed.created_by.name], ['deploy', 'owner@example.test']);
    assert.equal(JSON.stringify(list.body).includes(body.key), false);
  });

  it('are for one project alone where one is named', async () => {
    const [project, other] = [await createProject(), await createProject()];
    const { body } = await create({ key_name: 'ci', project_id: project.id });
    assert.equal(body.project_id, project.id);
    assert.equal(await statusOf(`/projects/${project.id}`, body.key), 200);
    assert.equal(await statusOf(`/projects/${other.id}`, body.key), 404);
    const list = await api.call('GET', keys());
    const listed = list.body.find((key: { id: number }) => key.id === body.id);
    assert.equal(listed.project_id, project.id);
  });

  it('are not made for a project that is not the organization’s, or not there', async () => {
    const elsewhere = await addOrganization(api);
    const person = await addPerson(api, { organization_id: elsewhere, role: 'admin' });
    const made = await api.call('POST', '/projects', { key: person.key, body: { project: {} } });
    for (const project_id of [made.body.project.id, 'no-such-project-12345678']) {
      const { status, body } = await create({ key_name: 'x', project_id });
      assert.deepEqual([status, body.message], [404, 'project not found']);
    }
  });

  it('are made by admins, and those of a project by every member', async () => {
    const project = await createProject();
    const member = await addPerson(api, { organization_id: org_id, role: 'member' });
    const refused = await create({ key_name: 'too much' }, member.key);
    assert.deepEqual([refused.status, /needs the role admin/.test(refused.body.message)], [403, true]);
    const allowed = await create({ key_name: 'ci', project_id: project.id }, member.key);
    assert.equal(allowed.status, 200);
    const by_key = await create({ key_name: 'a copy' }, (await create({ key_name: 'first' })).body.key);
    assert.deepEqual([by_key.status, by_key.body.message], [404, 'not allowed for organization API keys']);
  });

  it('end at once and for good when an admin, or a key of the organization, revokes them', async () => {
    const project = await createProject();
    const member = await addPerson(api, { organization_id: org_id, role: 'member' });
    const scoped = (await create({ key_name: 'ci', project_id: project.id }, member.key)).body;
    const revoke = (id: number, key?: string) => api.call('DELETE', `${keys()}/${id}`, { key });
    assert.equal((await revoke(scoped.id, member.key)).status, 403);
    const revoked = await revoke(scoped.id);
    assert.deepEqual([revoked.body.revoked, revoked.body.project_id], [true, project.id]);
    assert.equal(await statusOf(`/projects/${project.id}`, scoped.key), 401);
    assert.equal((await revoke(scoped.id)).status, 404);
    const own = (await create({ key_name: 'own' })).body;
    assert.equal((await revoke(own.id, own.key)).status, 200);
    assert.equal(await statusOf('/auth', own.key), 401);
  });

  it('are no personal keys, which others neither see nor revoke', async () => {
    const personal = (await api.call('POST', '/api_keys', { body: { key_name: 'mine' } })).body;
    const organization = (await create({ key_name: 'ours' })).body;
    assert.equal((await api.call('DELETE', `${keys()}/${personal.id}`)).status, 404);
    assert.equal((await api.call('DELETE', `/api_keys/${organization.id}`)).status, 404);
    const list = await api.call('GET', keys());
    assert.equal(
      list.body.some((key: { id: number }) => key.id === personal.id),
      false,
    );
  });

  it('outlive the membership of whoever made them', async () => {
    const maker = await addPerson(api, { organization_id: org_id, role: 'admin' });
    const made = (await create({ key_name: 'stays' }, maker.key)).body;
    await api.store.store.deleteFrom('memberships').where('user_id', '=', maker.id).execute();
    assert.equal(await statusOf('/auth', made.key), 200);
    assert.equal((await create({ key_name: 'too late' }, maker.key)).status, 404);
  });
});
