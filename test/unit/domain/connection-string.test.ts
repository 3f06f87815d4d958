import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { connectionHost, connectionUri, endpointHost, type HostNaming } from '../../../src/domain/connection-string.ts';

const endpoint_id = 'ep-blue-fox-a1b2c3d4';
const login = { endpoint_id, role: 'neondb_owner', password: 'npg_secret', database: 'neondb' };
const local: HostNaming = { domain: 'localhost', pg_port: 5432, domain_resolves: true };

describe('a connection string', () => {
  it('asks for TLS with channel binding on a real domain', () => {
    const naming = { domain: 'db.example.test', pg_port: 5432, domain_resolves: true };
    assert.equal(
      connectionUri(naming, login),
      `postgresql://neondb_owner:npg_secret@${endpoint_id}.db.example.test/neondb?sslmode=require&channel_binding=require`,
    );
    assert.equal(
      connectionUri(naming, { ...login, pooled: true }),
      `postgresql://neondb_owner:npg_secret@${endpoint_id}-pooler.db.example.test/neondb?sslmode=require&channel_binding=require`,
    );
  });

  it('carries the endpoint in its options below localhost', () => {
    assert.equal(
      connectionUri(local, login),
      `postgresql://neondb_owner:npg_secret@${endpoint_id}.localhost/neondb?options=endpoint%3D${endpoint_id}`,
    );
  });

  it('names localhost where names below it do not resolve, and the endpoint all the same', () => {
    const naming = { ...local, pg_port: 6543, domain_resolves: false };
    for (const [pooled, name] of [
      [false, endpoint_id],
      [true, `${endpoint_id}-pooler`],
    ] as const) {
      const uri = connectionUri(naming, { ...login, pooled });
      assert.equal(uri, `postgresql://neondb_owner:npg_secret@localhost:6543/neondb?options=endpoint%3D${name}`);
    }
    assert.equal(endpointHost(naming, endpoint_id), `${endpoint_id}.localhost:6543`);
  });

  it('holds the host that is told beside it, so that a client can put the pooled one in its place', () => {
    for (const naming of [local, { ...local, pg_port: 15432 }, { ...local, domain: 'a.test', domain_resolves: true }]) {
      const direct = connectionUri(naming, login);
      const swapped = direct.replace(connectionHost(naming, endpoint_id), connectionHost(naming, endpoint_id, true));
      assert.equal(new URL(swapped).host, connectionHost(naming, endpoint_id, true));
      assert.equal(new URL(direct).host, connectionHost(naming, endpoint_id));
    }
  });

  it('survives names and passwords of any characters', () => {
    const odd = { ...login, role: 'a/b@c:d', password: 'p?#% ü', database: 'Größe 🌲' };
    const { username, password, pathname } = new URL(connectionUri(local, odd));
    assert.deepEqual([username, password, pathname.slice(1)].map(decodeURIComponent), [
      odd.role,
      odd.password,
      odd.database,
    ]);
  });
});
