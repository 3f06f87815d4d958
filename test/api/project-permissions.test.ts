import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { createUser } from '../../src/actions/create-user.ts';
import { startTestApi, type TestApi } from '../support/api-server.ts';
import { addPerson } from '../support/people.ts';

describe('a project that is shared', () => {
  let api: TestApi;
  before(async () => {
    api = await startTestApi();
  });
  after(() => api?.close());

  const createProject = async (name = 'a project') =>
    (await api.call('POST', '/projects', { body: { project: { name } } })).body;
  const share = (project_id: string, email: string, key?: string) =>
    api.call('POST', `/projects/${project_id}/permissions`, { key, body: { email } });
  const shared = async (key: string, query = ''): Promise<string[]> => {
    const { body } = await api.call('GET', `/projects/shared${query}`, { key });
    return body.projects.map(({ id }: { id: string }) => id);
  };

  it('is used by the person whom the address belongs to, but for what admins may', async () => {
    const { project, branch } = await createProject();
    const person = await addPerson(api);
    const path = `/projects/${project.id}`;
    assert.equal((await api.call('GET', path, { key: person.key })).status, 404);
    const granted = await share(project.id, person.email.toUpperCase());
    assert.deepEqual([granted.status, granted.body.granted_to_email], [200, person.email]);
    assert.equal((await api.call('GET', path, { key: person.key })).status, 200);
    const roles = `${path}/branches/${branch.id}/roles`;
    const made = await api.call('POST', roles, { key: person.key, body: { role: { name: 'guest' } } });
    assert.equal(made.status, 201);
    assert.equal((await api.call('DELETE', path, { key: person.key })).status, 403);
    assert.equal((await api.call('GET', `/organizations/${project.org_id}`, { key: person.key })).status, 404);
  });

  it('may be shared further, and is listed with whom', async () => {
    const { project } = await createProject();
    const [first, second] = [await addPerson(api), await addPerson(api)];
    await share(project.id, first.email);
    assert.equal((await share(project.id, second.email, first.key)).status, 200);
    const { body } = await api.call('GET', `/projects/${project.id}/permissions`, { key: second.key });
    assert.deepEqual(
      body.project_permissions.map((one: { granted_to_email: string }) => one.granted_to_email),
      [first.email, second.email],
    );
  });

  it('is no longer used at the next request after the permission ended', async () => {
    const { project } = await createProject();
    const person = await addPerson(api);
    const { body: granted } = await share(project.id, person.email);
    assert.deepEqual((await share(project.id, person.email)).body, granted);
    const permission = `/projects/${project.id}/permissions/${granted.id}`;
    const revoked = await api.call('DELETE', permission);
    assert.equal(revoked.body.id, granted.id);
    assert.ok(revoked.body.revoked_at);
    assert.equal((await api.call('GET', `/projects/${project.id}`, { key: person.key })).status, 404);
    assert.deepEqual(await shared(person.key), []);
    assert.equal((await api.call('DELETE', permission)).status, 404);
    assert.notEqual((await share(project.id, person.email)).body.id, granted.id);
  });

  it('of another project has permissions of its own', async () => {
    const [one, two] = [await createProject(), await createProject()];
    const { body } = await share(one.project.id, 'a@example.test');
    const wrong = await api.call('DELETE', `/projects/${two.project.id}/permissions/${body.id}`);
    assert.deepEqual([wrong.status, wrong.body.message], [404, 'permission not found']);
  });

  it('waits for a person who has no account yet', async () => {
    const { project } = await createProject();
    await share(project.id, 'Later@Example.test');
    const { secret } = await createUser(api.context, { email: 'later@example.test', name: '', key_name: 'first' });
    assert.equal((await api.call('GET', `/projects/${project.id}`, { key: secret })).status, 200);
    assert.deepEqual(await shared(secret), [project.id]);
  });

  it('is listed for those who see it for no other reason, page by page, until it is deleted', async () => {
    const person = await addPerson(api);
    const made: { id: string; org_id: string }[] = [];
    for (const name of ['apple', 'pear', 'plum']) {
      const { project } = await createProject(name);
      await share(project.id, person.email);
      made.unshift(project);
    }
    const ids = made.map(({ id }) => id);
    assert.deepEqual(await shared(person.key), ids);
    assert.deepEqual(await shared(person.key, '?limit=2'), ids.slice(0, 2));
    assert.deepEqual(await shared(person.key, `?limit=2&cursor=${ids[1]}`), ids.slice(2));
    assert.deepEqual(await shared(person.key, `?cursor=${ids[2]}`), []);
    assert.deepEqual(await shared(person.key, '?search=pear'), ids.slice(1, 2));
    await api.call('DELETE', `/projects/${ids[0]}`);
    assert.deepEqual(await shared(person.key), ids.slice(1));
    await api.store.store
      .insertInto('memberships')
      .values({ organization_id: made[0]!.org_id, user_id: person.id, role: 'member' })
      .execute();
    assert.deepEqual(await shared(person.key), []);
  });

  it('is shared by nobody from outside', async () => {
    const { project } = await createProject();
    const stranger = await addPerson(api);
    assert.equal((await share(project.id, stranger.email, stranger.key)).status, 404);
  });
});
