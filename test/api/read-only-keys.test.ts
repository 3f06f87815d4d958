import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { PERMISSIONS, type Permission } from '../../src/api/permissions.ts';
import { ROUTES } from '../../src/api/routes.ts';
import { startTestApi, type TestApi } from '../support/api-server.ts';
import { createSleepingProject, type TestProject } from '../support/project.ts';
import { exampleBody, examplePath, exampleQuery } from '../support/request-examples.ts';

const REFUSED = /^this API key is read-only: /;

describe('keys that only read', () => {
  let api: TestApi;
  let project: TestProject;
  let org_id: string;
  let key: string;
  before(async () => {
    api = await startTestApi();
    project = await createSleepingProject(api);
    org_id = (await api.call('GET', '/users/me/organizations')).body.organizations[0].id;
    key = (await make('/api_keys')).key;
  });
  after(() => api?.close());

  const make = async (path: string, wanted: object = {}) => {
    const { status, body } = await api.call('POST', path, { body: { key_name: 'reader', read_only: true, ...wanted } });
    assert.equal(status, 200, body.message);
    return body;
  };

  for (const route of ROUTES) {
    it(`are let in to read, and to nothing else: ${route.method} ${route.path}`, async () => {
      const ids = { ...project, project_id: project.id, org_id };
      const path = examplePath(route, ids) + exampleQuery(route, ids);
      const send = (by: string) => api.call(route.method, path, { key: by, body: exampleBody(route, ids) });
      const reads = route.method === 'GET' && !(PERMISSIONS[route.permission] as Permission).reveals;
      if (!reads) {
        const { status, body } = await send(key);
        assert.deepEqual([status, REFUSED.test(body.message)], [403, true]);
        return;
      }
      const [by_reader, by_owner] = [await send(key), await send(api.key)];
      assert.equal(by_reader.status, by_owner.status, by_reader.body?.message);
    });
  }

  it('are shown as such where keys are made and listed, and others as ever', async () => {
    const made = await make('/api_keys');
    assert.equal(made.read_only, true);
    const plain = (await api.call('POST', '/api_keys', { body: { key_name: 'writer' } })).body;
    assert.equal('read_only' in plain, false);
    const listed: { id: number; read_only?: boolean }[] = (await api.call('GET', '/api_keys')).body;
    assert.equal(listed.find(({ id }) => id === made.id)?.read_only, true);
    assert.equal('read_only' in listed.find(({ id }) => id === plain.id)!, false);
    const revoked = await api.call('DELETE', `/api_keys/${made.id}`);
    assert.equal(revoked.body.read_only, true);
  });

  it('may ask for the head of what they may read', async () => {
    const headers = { authorization: `Bearer ${key}` };
    const head = (path: string) =>
      api.app.inject({ method: 'HEAD', url: `/api/v2/projects/${project.id}${path}`, headers });
    assert.equal((await head('')).statusCode, 200);
    const query = `?database_name=${project.database}&role_name=${project.role}`;
    assert.equal((await head(`/connection_uri${query}`)).statusCode, 403);
  });

  it('can be an organization’s or a project’s as well', async () => {
    const path = `/organizations/${org_id}/api_keys`;
    for (const wanted of [{}, { project_id: project.id }]) {
      const made = await make(path, wanted);
      assert.equal(made.read_only, true);
      const root = `/projects/${project.id}`;
      assert.equal((await api.call('GET', root, { key: made.key })).status, 200);
      const refused = await api.call('PATCH', root, { key: made.key, body: { project: { name: 'changed' } } });
      assert.deepEqual([refused.status, REFUSED.test(refused.body.message)], [403, true]);
    }
    const listed: { read_only?: boolean }[] = (await api.call('GET', path)).body;
    assert.equal(listed.filter(({ read_only }) => read_only).length, 2);
  });
});
