import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { request } from 'node:https';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { after, before, beforeEach, describe, it } from 'node:test';
import { neon, neonConfig, Pool } from '@neondatabase/serverless';
import { NeonToolkit } from '@neondatabase/toolkit';
import { SignJWT } from 'jose';
import pg from 'pg';
import { WebSocket } from 'ws';
import { BOOTSTRAP_KEY, removeDataDirectory, startCoppice, type TestCoppice } from '../support/coppice.ts';
import { openIssuer, type TestIssuer } from '../support/token-issuer.ts';
import { until } from '../support/until.ts';

/** The serverless driver as people use it, on connection strings as the API gives them. */
describe('the serverless driver', { timeout: 300_000 }, () => {
  let coppice: TestCoppice;
  let project: string;
  let endpoint: string;
  let branch: string;
  let uri: string;

  before(async () => {
    coppice = await startCoppice();
    const made = await coppice.must('POST', '/projects', { project: { name: 'edge' } });
    project = made.project.id;
    endpoint = made.endpoints[0].id;
    branch = made.branch.id;
    uri = made.connection_uris[0].connection_uri;
    await coppice.settled(project);
  });
  after(async () => {
    await coppice?.stop();
    if (coppice) await removeDataDirectory(coppice.data_directory);
  });
  beforeEach(() => {
    Object.assign(neonConfig, {
      fetchEndpoint: () => `http://localhost:${coppice.api_port}/sql`,
      fetchFunction: undefined,
      wsProxy: `localhost:${coppice.api_port}/v2`,
      useSecureWebSocket: false,
      webSocketConstructor: undefined,
    });
  });

  const sleep = async () => {
    await coppice.must('POST', `/projects/${project}/endpoints/${endpoint}/suspend`);
    await coppice.settled(project);
    const shown = await coppice.must('GET', `/projects/${project}/endpoints/${endpoint}`);
    assert.equal(shown.endpoint.current_state, 'idle');
  };
  const withPool = async <T>(use: (pool: Pool) => Promise<T>): Promise<T> => {
    const pool = new Pool({ connectionString: uri });
    pool.on('error', () => undefined);
    try {
      return await use(pool);
    } finally {
      await pool.end();
    }
  };

  it('works over HTTP', async () => {
    const sql = neon(uri);
    const [, made, rows] = await sql.transaction([
      sql`CREATE TABLE notes (id int PRIMARY KEY, text text)`,
      sql`INSERT INTO notes VALUES (1, ${'one'}), (2, ${'two'})`,
      sql`SELECT * FROM notes ORDER BY id`,
    ]);
    assert.deepEqual(made, []);
    assert.deepEqual(rows, [
      { id: 1, text: 'one' },
      { id: 2, text: 'two' },
    ]);
    const full = await sql.query('SELECT id FROM notes WHERE id = $1', [2], { fullResults: true, arrayMode: true });
    assert.deepEqual([full.rows, full.rowCount, full.command], [[[2]], 1, 'SELECT']);
    await assert.rejects(sql`INSERT INTO notes VALUES (1)`, { code: '23505', table: 'notes' });
  });

  it('works over a WebSocket', async () => {
    await withPool(async (pool) => {
      const client = await pool.connect();
      await client.query('BEGIN');
      await client.query('INSERT INTO notes VALUES ($1, $2)', [3, 'three']);
      await client.query('ROLLBACK');
      client.release();
      assert.equal((await pool.query('SELECT count(*)::int AS count FROM notes')).rows[0].count, 2);
    });
  });

  it('wakes a compute that sleeps, over either', async () => {
    await sleep();
    assert.deepEqual(await neon(uri)`SELECT count(*)::int AS count FROM notes`, [{ count: 2 }]);
    await sleep();
    await withPool(async (pool) => {
      assert.deepEqual((await pool.query('SELECT count(*)::int AS count FROM notes')).rows, [{ count: 2 }]);
    });
    await sleep();
    assert.deepEqual(await neon(uri)`SELECT count(*)::int AS count FROM notes`, [{ count: 2 }]);
  });

  it('is what the toolkit asks through, of a project that it makes and deletes', async () => {
    const toolkit = new NeonToolkit(BOOTSTRAP_KEY);
    // It takes no address; that of its API client can be set.
    toolkit.apiClient.instance.defaults.baseURL = `http://localhost:${coppice.api_port}/api/v2`;
    const made = await toolkit.createProject({ name: 'of an agent', pg_version: 16 });
    try {
      await toolkit.sql(made, 'CREATE TABLE notes (text text)');
      await toolkit.sql(made, "INSERT INTO notes VALUES ('one')");
      assert.deepEqual(await toolkit.sql(made, 'SELECT text FROM notes'), [{ text: 'one' }]);
      const version = await toolkit.sql(made, "SELECT current_setting('server_version_num')::int / 10000 AS major");
      assert.deepEqual(version, [{ major: 16 }]);
    } finally {
      await toolkit.deleteProject(made);
    }
    await assert.rejects(toolkit.apiClient.getProject(made.project.id), { status: 404 });
  });

  it('looks into the past of a branch', async () => {
    const sql = neon(uri);
    await sql`INSERT INTO notes VALUES (4, 'four')`;
    const [{ lsn }] = (await sql`SELECT pg_current_wal_insert_lsn()::text AS lsn`) as [{ lsn: string }];
    await sql`DELETE FROM notes WHERE id = 4`;
    const { branches } = await coppice.must('GET', `/projects/${project}/branches`);
    const options = encodeURIComponent(`endpoint=${branches[0].id} neon_lsn:${lsn}`);
    const past = neon(uri.replace(/\?.*/, `?options=${options}`).replace(endpoint, branches[0].id));
    for (let count = 0; count < 2; count++) {
      assert.deepEqual(await past`SELECT text FROM notes WHERE id = 4`, [{ text: 'four' }]);
    }
    await assert.rejects(past`DELETE FROM notes`, { code: '25006' });
    assert.deepEqual(await sql`SELECT FROM notes WHERE id = 4`, []);
  });

  it('does not wake a compute with a wrong password', async () => {
    await sleep();
    const wrong = uri.replace(/:[^:@]*@/, ':npg_wrong@');
    await assert.rejects(neon(wrong)`SELECT 1`, { code: '28P01' });
    const shown = await coppice.must('GET', `/projects/${project}/endpoints/${endpoint}`);
    assert.equal(shown.endpoint.current_state, 'idle');
  });

  it('is kept out where the project does not allow its address, as soon as that is said', async () => {
    const change = (settings: object) => coppice.must('PATCH', `/projects/${project}`, { project: { settings } });
    const entering = {
      http: () => neon(uri)`SELECT 1`,
      websocket: () => withPool((pool) => pool.query('SELECT 1')),
      tcp: async () => {
        await using client = Object.assign(new pg.Client({ connectionString: uri }), {
          [Symbol.asyncDispose]: () => client.end().catch(() => undefined),
        });
        await client.connect();
      },
    };
    const refused = { code: '28000', message: /^This IP address \S+ is not allowed to connect to this endpoint/ };
    const comesTo = (expected: string) =>
      until(
        async () => {
          const outcome = await entering.http().then(
            () => 'in',
            (error) => error.code,
          );
          return outcome === expected;
        },
        { what: `the gateway to answer ${expected}` },
      );
    await change({ allowed_ips: { ips: ['203.0.113.7'] } });
    await comesTo('28000');
    // Not before: who came while that was not known yet may have woken it.
    await sleep();
    for (const enter of Object.values(entering)) await assert.rejects(enter(), refused);
    const shown = await coppice.must('GET', `/projects/${project}/endpoints/${endpoint}`);
    assert.equal(shown.endpoint.current_state, 'idle');
    await change({ allowed_ips: { ips: ['203.0.113.7', '127.0.0.0/8', '::1'] } });
    await comesTo('in');
    for (const enter of Object.values(entering)) await enter();
    await change({ allowed_ips: { ips: ['203.0.113.7'], protected_branches_only: true } });
    for (const enter of Object.values(entering)) await enter();
    const protect = (on: boolean) =>
      coppice.must('PATCH', `/projects/${project}/branches/${branch}`, { branch: { protected: on } });
    await protect(true);
    await comesTo('28000');
    await protect(false);
    await comesTo('in');
    await change({ allowed_ips: { ips: [] }, block_public_connections: true });
    for (const enter of Object.values(entering)) await enter();
    await change({ block_public_connections: false });
  });

  describe('with tokens', () => {
    let issuer: TestIssuer;
    before(async () => {
      issuer = await openIssuer();
      await issuer.add('rsa', 'RS256');
      await issuer.add('ec', 'ES256');
    });
    after(() => issuer?.close());

    const tokenOf = (sub: string, { kid = 'ec', audience = 'notes', expires = '1h' } = {}) => {
      const { algorithm, key } = issuer.keys.get(kid)!;
      const claims = new SignJWT({ sub }).setProtectedHeader({ alg: algorithm, kid });
      return claims.setAudience(audience).setExpirationTime(expires).sign(key);
    };
    const as = (role: string, authToken: string) => neon(uri.replace(/\/\/[^@]*@/, `//${role}@`), { authToken });

    it('sees what the policies of a table show to whoever the token is of', async () => {
      const wanted = { jwks_url: issuer.url, provider_name: 'test', jwt_audience: 'notes' };
      const { operations } = await coppice.must('POST', `/projects/${project}/jwks`, wanted);
      assert.deepEqual(
        operations.map(({ action }: { action: string }) => action),
        ['apply_config'],
      );
      await coppice.settled(project);
      await neon(uri).transaction((sql) => [
        sql`CREATE TABLE own_notes (owner text DEFAULT current_setting('request.jwt.claims')::jsonb ->> 'sub', text text)`,
        sql`ALTER TABLE own_notes ENABLE ROW LEVEL SECURITY`,
        sql`CREATE POLICY own ON own_notes USING (owner = current_setting('request.jwt.claims')::jsonb ->> 'sub')`,
        sql`GRANT SELECT, INSERT ON own_notes TO authenticated`,
      ]);
      for (const [sub, kid] of [
        ['alice', 'ec'],
        ['bob', 'rsa'],
      ] as const) {
        const sql = as('authenticated', await tokenOf(sub, { kid }));
        await sql`INSERT INTO own_notes (text) VALUES (${`of ${sub}`})`;
        assert.deepEqual(await sql`SELECT owner, text FROM own_notes`, [{ owner: sub, text: `of ${sub}` }]);
        await assert.rejects(sql`INSERT INTO own_notes VALUES ('carol', 'forged')`, { code: '42501' });
      }
      await assert.rejects(as('anonymous', await tokenOf('alice'))`SELECT FROM own_notes`, { code: '42501' });
    });

    it('wakes a compute by a token that is valid, and by no other', async () => {
      await sleep();
      for (const [role, token] of [
        ['authenticated', await tokenOf('alice', { expires: '5m ago' })],
        ['authenticated', await tokenOf('alice', { audience: 'others' })],
        ['neondb_owner', await tokenOf('alice')],
        ['nobody', await tokenOf('alice')],
      ] as const) {
        await assert.rejects(as(role, token)`SELECT 1`, /the token is not valid/);
      }
      const shown = await coppice.must('GET', `/projects/${project}/endpoints/${endpoint}`);
      assert.equal(shown.endpoint.current_state, 'idle');
      assert.deepEqual(await as('authenticated', await tokenOf('alice'))`SELECT 1 AS one`, [{ one: 1 }]);
    });

    /** Server connections that are open would serve on without a login. */
    const drop = () =>
      neon(uri)`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'authenticated'`;

    it('is let in as long as the role has a password that is stored', async () => {
      const token = await tokenOf('alice');
      const enter = () => as('authenticated', token)`SELECT current_user AS name`;
      await as('authenticated', token)`ALTER ROLE authenticated PASSWORD 'of my own'`;
      await drop();
      const says = (what: RegExp) =>
        until(
          () =>
            enter().then(
              () => what.test('in'),
              (error) => what.test(error.message),
            ),
          { what: `an answer like ${what}` },
        );
      await says(/cannot log in by a token/);
      await coppice.must('POST', `/projects/${project}/branches/${branch}/roles/authenticated/reset_password`);
      await coppice.settled(project);
      await says(/^in$/);
      assert.deepEqual(await enter(), [{ name: 'authenticated' }]);
    });

    it('is let in no more once the issuer is removed', async () => {
      const token = await tokenOf('alice');
      const { jwks } = await coppice.must('GET', `/projects/${project}/jwks`);
      await coppice.must('DELETE', `/projects/${project}/jwks/${jwks[0].id}`);
      await until(
        () =>
          as('authenticated', token)`SELECT 1`.then(
            () => false,
            (error) => /nobody is known whose tokens are taken here/.test(error.message),
          ),
        { what: 'the token to be refused' },
      );
    });
  });

  it('finds its way by its own rules, with certificates that it checks', async () => {
    const ca = await readFile(join(coppice.data_directory, 'certificates/ca.crt'), 'utf8');
    const { host } = new URL(uri.replace(/^postgresql/, 'http'));
    const asked: string[] = [];
    // In place of DNS and of port 443, which a test cannot have.
    const connect = { ca, host: '127.0.0.1', port: coppice.api_port };
    Object.assign(neonConfig, {
      fetchEndpoint: (name: string, _port: number, options?: { jwtAuth?: boolean }) =>
        `https://${name.replace(/^[^.]+/, options?.jwtAuth ? 'apiauth' : 'api')}/sql`,
      fetchFunction: async (
        url: string,
        { method, body, headers }: { method: string; body: string; headers: object },
      ) => {
        asked.push(url);
        const servername = new URL(url).hostname;
        const sent = request({
          ...connect,
          method,
          path: '/sql',
          servername,
          headers: { ...headers, host: servername },
        });
        const { promise, resolve, reject } = Promise.withResolvers<Response>();
        sent.on('error', reject).on('response', async (got) => {
          resolve(new Response(await buffer(got), { status: got.statusCode! }));
        });
        sent.end(body);
        return promise;
      },
      wsProxy: (name: string) => `${name}/v2`,
      useSecureWebSocket: true,
      webSocketConstructor: class extends WebSocket {
        constructor(url: string) {
          asked.push(url);
          const { hostname, pathname } = new URL(url);
          const options = { ca, servername: hostname, headers: { host: hostname } };
          super(`wss://127.0.0.1:${coppice.api_port}${pathname}`, undefined, options);
        }
      },
    });
    assert.deepEqual(await neon(uri)`SELECT 1 AS one`, [{ one: 1 }]);
    const withToken = neon(uri.replace(/:[^:@]*@/, '@'), { authToken: 'none' });
    await assert.rejects(withToken`SELECT 1`, /the token is not valid/);
    // Without the option the host alone tells.
    uri = uri.replace(/\?.*/, '');
    await withPool(async (pool) => assert.deepEqual((await pool.query('SELECT 2 AS two')).rows, [{ two: 2 }]));
    assert.deepEqual(asked.slice(0, 2), ['https://api.localhost/sql', 'https://apiauth.localhost/sql']);
    assert.deepEqual(asked.slice(2), [`wss://${host.replace(/:\d+$/, '')}/v2`]);
  });

  it('shares its port with the API, which speaks TLS there as well', async () => {
    const ca = await readFile(join(coppice.data_directory, 'certificates/ca.crt'), 'utf8');
    const sent = request({ ca, host: '127.0.0.1', port: coppice.api_port, servername: 'localhost', path: '/healthz' });
    const { promise, resolve, reject } = Promise.withResolvers<number | undefined>();
    sent.on('error', reject).on('response', (got) => resolve(got.resume().statusCode));
    sent.end();
    assert.equal(await promise, 200);
    const plain = await fetch(`http://localhost:${coppice.api_port}/healthz`);
    assert.equal(plain.status, 200);
  });
});
