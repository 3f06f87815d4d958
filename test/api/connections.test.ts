import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import {
  addConnections,
  type ConnectionsReader,
  type EndpointConnections,
} from '../../src/domain/endpoint-connections.ts';
import { startTestApi, type TestApi } from '../support/api-server.ts';
import { createSleepingProject, type TestProject } from '../support/project.ts';

describe('who is connected to an endpoint', () => {
  let api: TestApi;
  let project: TestProject;
  let connected: ConnectionsReader;
  before(async () => {
    api = await startTestApi({ connections: async (...asked) => connected(...asked) });
    project = await createSleepingProject(api);
  });
  after(() => api?.close());

  const path = (of = project.endpoint_id) => `/projects/${project.id}/endpoints/${of}/connections`;
  const part = (started_at: string, waited_ms: number): EndpointConnections => ({
    pooled: { active: 1, waiting: 1, idle: 2 },
    direct: { active: 1, waiting: 0 },
    pools: [
      {
        ...{ role: 'neondb_owner', database: 'neondb', longest_wait_ms: waited_ms },
        clients: { active: 1, waiting: 1, idle: 2 },
        servers: { in_use: 1, idle: 0, opening: 1 },
      },
    ],
    pools_total: 1,
    sessions: [
      {
        ...{ session_id: '0190a1b2-0000-4000-8000-000000000001', role: 'neondb_owner', database: 'neondb' },
        ...{ application_name: 'psql', peer: '127.0.0.1:4711', protocol: 'tcp', state: 'active' },
        ...{ connected_at: new Date(started_at), received_bytes: 10, sent_bytes: 20 },
      },
    ],
    sessions_total: 1,
  });
  const parts = [part('2026-01-02T00:00:00Z', 1.4), part('2026-01-01T00:00:00Z', 7.6)];

  it('is shown for all processes of the gateway together', async () => {
    const asked: unknown[] = [];
    connected = async (id, limit) => {
      asked.push(id, limit);
      return addConnections(parts, limit);
    };
    const { status, body } = await api.call('GET', `${path()}?limit=1`);
    assert.equal(status, 200);
    assert.deepEqual(asked, [project.endpoint_id, 1]);
    const { pools, sessions, ...counts } = body.connections;
    assert.deepEqual(counts, {
      pooled: { active: 2, waiting: 2, idle: 4 },
      direct: { active: 2, waiting: 0 },
      ...{ pools_total: 1, sessions_total: 2 },
    });
    assert.deepEqual(pools, [
      {
        ...{ role_name: 'neondb_owner', database_name: 'neondb', longest_wait_ms: 8 },
        clients: { active: 2, waiting: 2, idle: 4 },
        servers: { in_use: 2, idle: 0, opening: 2 },
      },
    ]);
    assert.deepEqual(sessions, [
      {
        ...{ session_id: '0190a1b2-0000-4000-8000-000000000001', role_name: 'neondb_owner', database_name: 'neondb' },
        ...{ application_name: 'psql', peer: '127.0.0.1:4711', protocol: 'tcp', state: 'active' },
        ...{ connected_at: '2026-01-01T00:00:00Z', received_bytes: 10, sent_bytes: 20 },
      },
    ]);
  });

  it('is shown for endpoints of the project alone, in lists of a bounded length', async () => {
    connected = () => assert.fail('the gateway was asked');
    const other = await createSleepingProject(api);
    const foreign = await api.call('GET', path(other.endpoint_id));
    assert.equal(foreign.status, 404);
    for (const limit of ['0', '1001', 'x']) {
      assert.equal((await api.call('GET', `${path()}?limit=${limit}`)).status, 400, limit);
    }
  });
});
