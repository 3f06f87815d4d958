import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { serializeConnection } from '../../src/api/serializers/connection.ts';
import { endpointHost, type HostNaming } from '../../src/domain/connection-string.ts';
import { startTestApi, type TestApi } from '../support/api-server.ts';
import { createReadyBranch, createSleepingProject, type TestProject } from '../support/project.ts';

const query = (fields: Record<string, string>) => new URLSearchParams(fields).toString();

describe('the connection string', () => {
  let api: TestApi;
  let project: TestProject;
  before(async () => {
    api = await startTestApi({ installation: { domain: 'db.example.test' } });
    project = await createSleepingProject(api);
  });
  after(() => api?.close());

  const uri = (fields: Record<string, string> = {}, of = project) =>
    api.call(
      'GET',
      `/projects/${of.id}/connection_uri?${query({ database_name: 'neondb', role_name: 'neondb_owner', ...fields })}`,
    );

  it('is that of the default branch and its read_write endpoint', async () => {
    const { status, body } = await uri();
    assert.equal(status, 200);
    assert.equal(
      body.uri,
      `postgresql://neondb_owner:${project.password}@${project.endpoint_id}.db.example.test/neondb?sslmode=require&channel_binding=require`,
    );
  });

  it('names the pooled host when asked', async () => {
    const { body } = await uri({ pooled: 'true' });
    assert.equal(new URL(body.uri).hostname, `${project.endpoint_id}-pooler.db.example.test`);
    assert.equal(new URL((await uri({ pooled: 'false' })).body.uri).hostname, `${project.endpoint_id}.db.example.test`);
    assert.equal((await uri({ pooled: 'perhaps' })).status, 400);
  });

  it('is that of the branch or the endpoint asked for', async () => {
    const made = await createReadyBranch(api, project, {}, [{ type: 'read_write' }]);
    const host = `${made.endpoints[0].id}.db.example.test`;
    assert.equal(new URL((await uri({ branch_id: made.branch.id })).body.uri).hostname, host);
    assert.equal(new URL((await uri({ endpoint_id: made.endpoints[0].id })).body.uri).hostname, host);
    const crossed = await uri({ branch_id: project.branch_id, endpoint_id: made.endpoints[0].id });
    assert.deepEqual([crossed.status, crossed.body.message], [404, 'endpoint not found']);
  });

  it('escapes what is not safe in a URL', async () => {
    const path = `/projects/${project.id}/branches/${project.branch_id}`;
    await api.call('POST', `${path}/roles`, { body: { role: { name: 'a b@c/d' } } });
    await api.call('POST', `${path}/databases`, { body: { database: { name: 'x?y#z', owner_name: 'a b@c/d' } } });
    const { body } = await uri({ role_name: 'a b@c/d', database_name: 'x?y#z' });
    const parsed = new URL(body.uri);
    assert.equal(decodeURIComponent(parsed.username), 'a b@c/d');
    assert.equal(decodeURIComponent(parsed.pathname), '/x?y#z');
  });

  it('is 404 for anything unknown, and for a branch without a compute', async () => {
    const bare = await createReadyBranch(api, project);
    for (const [fields, message] of [
      [{ role_name: 'nobody' }, 'role not found'],
      [{ database_name: 'nothing' }, 'database not found'],
      [{ branch_id: 'br-no-such-12345678' }, 'branch not found'],
      [{ endpoint_id: 'ep-no-such-12345678' }, 'endpoint not found'],
      [{ branch_id: bare.branch.id }, 'read_write endpoint not found'],
    ] as const) {
      const { status, body } = await uri(fields);
      assert.deepEqual([status, body.message], [404, message]);
    }
    assert.equal((await api.call('GET', `/projects/${project.id}/connection_uri?role_name=neondb_owner`)).status, 400);
  });

  it('is 412 in a project that does not store passwords', async () => {
    const own = await createSleepingProject(api, { store_passwords: false });
    assert.equal((await uri({}, own)).status, 412);
  });
});

describe('connection strings of an installation', () => {
  const endpoint_id = 'ep-test-oak-a1b2c3d4';
  const target = { endpoint_id, role: 'neondb_owner', password: 'npg_secret', database: 'neondb' };
  const local = { domain: 'localhost', pg_port: 5432, domain_resolves: true };
  const optional = `?options=endpoint%3D${endpoint_id}`;
  const installations: [title: string, naming: HostNaming, host: string, search: string][] = [
    ['at localhost', local, `${endpoint_id}.localhost`, optional],
    ['at another port', { ...local, pg_port: 5433 }, `${endpoint_id}.localhost:5433`, optional],
    [
      'where names below localhost do not resolve',
      { ...local, pg_port: 5433, domain_resolves: false },
      'localhost:5433',
      optional,
    ],
    [
      'with a domain',
      { domain: 'db.example.test', pg_port: 6000, domain_resolves: true },
      `${endpoint_id}.db.example.test:6000`,
      '?sslmode=require&channel_binding=require',
    ],
  ];
  for (const [title, naming, host, search] of installations) {
    it(`${title} contain exactly the host that goes with them, so that a client can put the pooled one there`, () => {
      const { connection_uri, connection_parameters } = serializeConnection(target, naming);
      assert.equal(connection_parameters.host, host);
      assert.ok(connection_uri.includes(`@${host}/neondb`));
      assert.equal(new URL(connection_uri).search, search);
      const pooled = connection_uri.replace(host, connection_parameters.pooler_host);
      assert.equal(new URL(pooled).password, target.password);
      assert.ok(endpointHost(naming, endpoint_id).startsWith(`${endpoint_id}.`), 'the host shown begins with the id');
    });
  }
});
