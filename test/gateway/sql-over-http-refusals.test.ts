import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createConnection } from 'node:net';
import { after, before, describe, it } from 'node:test';
import type { GatewayLimits } from '../../src/gateway/gateway.ts';
import { type GatedPostgres, openGatedPostgres, ROLE } from '../support/gated-postgres.ts';
import { type HttpDoor, openHttpDoor } from '../support/http-door.ts';
import { postSql, sqlUrl, sqlValue } from '../support/sql-requests.ts';
import { until } from '../support/until.ts';

let gated: GatedPostgres;
let door: HttpDoor;
before(async () => {
  gated = await openGatedPostgres();
  door = await openHttpDoor(gated.gateway);
  await gated.postmaster.query('CREATE TABLE public.kept (id int PRIMARY KEY)', 'neondb');
  await gated.postmaster.query(`ALTER TABLE public.kept OWNER TO ${ROLE}`, 'neondb');
});
after(async () => {
  await door?.[Symbol.asyncDispose]();
  await gated?.[Symbol.asyncDispose]();
});

const url = sqlUrl;
const post = (body: unknown, headers: Record<string, string> = {}, to = door) => postSql(to, body, headers);
const value = (query: string, params: unknown[] = []) => sqlValue(door, query, params);

async function openDoor(limits: Partial<GatewayLimits>): Promise<HttpDoor> {
  return openHttpDoor(await gated.openGateway({ limits }));
}

describe('a bad request', () => {
  const header = (text: string) => ({ 'neon-connection-string': text });
  const cases: [string, unknown, Record<string, string>, RegExp][] = [
    ['that is no JSON', '{"query":', {}, /the body is not JSON/],
    ['that is no object', [1], {}, /must be an object/],
    ['without a query', {}, {}, /`query` must be a string/],
    ['with a query that is no text', { query: 1 }, {}, /`query` must be a string/],
    ['with parameters that are no array', { query: '', params: {} }, {}, /`params` must be an array/],
    ['with too many parameters', { query: '', params: Array(65_536).fill(1) }, {}, /more than 65535/],
    ['with parameters without a bottom', `{"query":"","params":[${'['.repeat(50_000)}${']'.repeat(50_000)}]}`, {}, /./],
    ['with a zero in its query', { query: 'SELECT \0' }, {}, /zero character/],
    ['with a zero in a parameter', { query: 'SELECT $1::text', params: ['\0'] }, {}, /invalid byte sequence/],
    ['with a batch that is none', { queries: {} }, {}, /`queries` must be an array/],
    ['with something else in a batch', { queries: [1] }, {}, /queries\[0\] must be an object/],
    ['with half a query in a batch', { queries: [{}] }, {}, /`queries\[0\].query` must be a string/],
    ['with several statements', { query: 'SELECT 1; SELECT 2' }, {}, /multiple commands/],
    ['with too few parameters', { query: 'SELECT $1::int' }, {}, /bind message supplies 0/],
    ['with COPY to the client', { query: 'COPY kept TO STDOUT' }, {}, /COPY .* is not available/],
    ['with COPY from the client', { query: 'COPY kept FROM STDIN' }, {}, /COPY .* is not available/],
    [
      'with an unknown level',
      { queries: [] },
      { 'neon-batch-isolation-level': 'toString' },
      /known are ReadUncommitted/,
    ],
    ['for who knows whom', { query: '' }, header('hello'), /does not begin with postgresql/],
    ['with a string that is no URL', { query: '' }, header('postgresql://a:b@:x/'), /is not a URL/],
    ['without a user', { query: '' }, header('postgresql://localhost/db'), /names no user/],
    ['without a password', { query: '' }, header(url({ password: '' })), /required password/],
    ['without an endpoint', { query: '' }, header(url({ options: '' })), /Endpoint ID is not specified/],
    ['for replication', { query: '' }, header(url({ more: '&replication=database' })), /Replication is not available/],
    [
      'for another user than it proves',
      { query: 'SELECT 1 / (current_user = $1)::int', params: ['x'] },
      header(url({ more: '&user=x' })),
      /division by zero/,
    ],
    ['with a setting that nobody knows', { query: '' }, header(url({ more: '&no_such_setting=1' })), /unrecognized/],
    ['with an encoding that is none', { query: '' }, header('postgresql://a%ff:b@localhost/db'), /percent-encoded/],
  ];
  for (const [name, body, headers, message] of cases) {
    it(`is refused with its reason: ${name}`, async () => {
      const answer = await post(body, headers);
      assert.equal(answer.status, 400);
      assert.match(answer.body.message, message);
    });
  }

  it('without a connection string is refused', async () => {
    const response = await fetch(`${door.url}/sql`, { method: 'POST', body: '{}' });
    assert.match((await response.json()).message, /Neon-Connection-String/);
  });

  it('of another method is refused, and a browser learns which it may send', async () => {
    const get = await fetch(`${door.url}/sql`);
    assert.deepEqual([get.status, get.headers.get('allow')], [405, 'OPTIONS, POST']);
    const asked = await fetch(`${door.url}/sql`, { method: 'OPTIONS' });
    assert.equal(asked.status, 200);
    const allowed = asked.headers.get('access-control-allow-headers')!.toLowerCase();
    for (const name of ['neon-connection-string', 'neon-batch-deferrable', 'authorization'])
      assert.ok(allowed.includes(name));
  });

  it('that is too large is refused, and so is an answer that would be', async () => {
    await using small = await openDoor({ sql_request_bytes: 5000, sql_response_bytes: 50_000 });
    const long = 'x'.repeat(6000);
    assert.equal((await post({ query: `SELECT '${long}'` }, {}, small)).status, 413);
    const chunked = await fetch(`${small.url}/sql`, {
      method: 'POST',
      body: new Blob([long]).stream(),
      duplex: 'half',
      headers: { 'neon-connection-string': url() },
    } as RequestInit);
    assert.equal(chunked.status, 413);
    for (const query of ["SELECT repeat('x', 60000)", "SELECT repeat('x', 1000) FROM generate_series(1, 100)"]) {
      const { status, body } = await post({ query }, {}, small);
      assert.deepEqual([status, body.message], [507, 'response is too large (max is 50000 bytes)']);
    }
    const lost = await post(
      { queries: [{ query: 'INSERT INTO kept VALUES (99)' }, { query: "SELECT repeat('x', 60000)" }] },
      {},
      small,
    );
    assert.equal(lost.status, 507);
    assert.equal((await post({ query: 'SELECT 1' }, {}, small)).status, 200);
    const left = () => value('SELECT count(*) FROM kept WHERE id = 99');
    await until(async () => (await left()) === '0', { what: 'the batch to be undone' });
  });

  it('that comes too slowly is given up', async () => {
    await using hasty = await openDoor({ handshake_timeout_ms: 200 });
    const socket = createConnection({ port: hasty.port, host: '127.0.0.1' });
    socket.write(`POST /sql HTTP/1.1\r\nHost: x\r\nNeon-Connection-String: ${url()}\r\nContent-Length: 100\r\n\r\n{`);
    const [answer] = (await once(socket, 'data')) as [Buffer];
    assert.match(answer.toString(), /^HTTP\/1.1 408 /);
    socket.destroy();
  });

  it('that ends half way is forgotten', async () => {
    const socket = createConnection({ port: door.port, host: '127.0.0.1' });
    socket.write(`POST /sql HTTP/1.1\r\nHost: x\r\nNeon-Connection-String: ${url()}\r\nContent-Length: 100\r\n\r\n{`);
    socket.end();
    socket.resume();
    await once(socket, 'close');
    assert.equal(await value('SELECT 1'), 1);
  });

  it('to an endpoint that is disabled is refused', async () => {
    gated.directory.entry = { ...gated.directory.entry, disabled: true };
    const { status, body } = await post({ query: 'SELECT 1' });
    gated.directory.entry = { ...gated.directory.entry, disabled: false };
    assert.deepEqual([status, body.code], [400, '55000']);
  });
});
