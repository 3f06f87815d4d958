import assert from 'node:assert/strict';
import type { AddressInfo } from 'node:net';
import { connect } from 'node:net';
import { text } from 'node:stream/consumers';
import { after, before, describe, it } from 'node:test';
import { createStatusServer } from '../../src/api/server.ts';
import { createMetrics } from '../../src/watch/metrics.ts';
import { addCallers } from '../support/api-callers.ts';
import { startTestApi, type TestApi } from '../support/api-server.ts';
import { assertInContract } from '../support/openapi-contract.ts';

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;

describe('the API over HTTP', () => {
  let api: TestApi;
  let ready = false;
  let base: string;
  before(async () => {
    api = await startTestApi({
      ready: () => ready,
      allowed_origins: ['https://console.example.test'],
      metrics: createMetrics([() => [{ name: 'coppice_store_waiting', labels: { pool: 'a "pool"' }, value: 3 }]]),
    });
    await api.app.listen({ host: '127.0.0.1', port: 0 });
    base = `http://127.0.0.1:${(api.app.server.address() as AddressInfo).port}`;
  });
  after(() => api?.close());

  const send = async (path: string, init: RequestInit = {}) => {
    const response = await fetch(base + path, {
      ...init,
      headers: { authorization: `Bearer ${api.key}`, ...init.headers },
    });
    const body = await response.text();
    const parsed = body === '' ? undefined : JSON.parse(body);
    assertInContract({ method: init.method ?? 'GET', url: path, status: response.status, body: parsed });
    return { status: response.status, headers: response.headers, body: parsed };
  };
  /** Bytes to the server, and all that it says until it closes. */
  const sendBytes = async (bytes: string) => {
    const { port } = api.app.server.address() as AddressInfo;
    const socket = connect(port, '127.0.0.1');
    socket.write(bytes);
    return text(socket);
  };

  it('tells unknown routes from known ones that do not answer to a method', async () => {
    const cases: [method: string, path: string, status: number, allow: string | null][] = [
      ['GET', '/', 404, null],
      ['GET', '/api/v1/projects', 404, null],
      ['GET', '/api/v2', 404, null],
      ['GET', '/api/v2/projects/', 404, null],
      ['GET', '/api/v2/projects//branches', 404, null],
      ['POST', '/api/v2/projects/a/nothing', 404, null],
      ['GET', '/api/v2/projects/%zz', 404, null],
      ['GET', `/api/v2/projects/${'x'.repeat(300)}`, 404, null],
      ['PUT', '/api/v2/projects', 405, 'GET, HEAD, POST'],
      ['DELETE', '/api/v2/users/me', 405, 'GET, HEAD'],
      ['GET', '/api/v2/projects/a/endpoints/b/start', 405, 'POST'],
      ['PROPFIND', '/api/v2/auth', 405, 'GET, HEAD'],
    ];
    for (const [method, path, status, allow] of cases) {
      // Neither a key nor a readable body makes a difference.
      for (const init of [{ headers: { authorization: 'Bearer wrong' } }, {}]) {
        const body = method === 'POST' ? '{broken' : undefined;
        const answer = await send(path, { ...init, method, body });
        assert.equal(answer.status, status, `${method} ${path}`);
        assert.equal(answer.headers.get('allow'), allow);
        if (status === 404) assert.equal(answer.body.message, 'this route does not exist');
      }
    }
  });

  it('names every request, by the name that the client gave it when that is a plain one', async () => {
    const named = await send('/api/v2/projects/unknown-project-1', { headers: { 'x-request-id': 'my-request.1' } });
    assert.equal(named.headers.get('x-request-id'), 'my-request.1');
    assert.equal(named.body.request_id, 'my-request.1');
    for (const odd of ['', 'x'.repeat(129), 'a b', '{"a":1}']) {
      const answer = await send('/api/v2/projects/unknown-project-1', { headers: { 'x-request-id': odd } });
      assert.match(answer.body.request_id, UUID);
      assert.equal(answer.headers.get('x-request-id'), answer.body.request_id);
    }
    assert.match((await send('/api/v2/auth')).headers.get('x-request-id')!, UUID);
  });

  it('takes an empty body for none, whatever type it is said to have', async () => {
    const made = await send('/api/v2/projects', {
      method: 'POST',
      headers: { 'content-type': 'application/json; charset=utf-8' },
      body: '{"project":{}}',
    });
    assert.equal(made.status, 201);
    const { project, endpoints } = made.body;
    // What the public API client says of no body at all is the last.
    for (const type of ['application/json', 'text/plain', 'application/x-www-form-urlencoded']) {
      const started = await send(`/api/v2/projects/${project.id}/endpoints/${endpoints[0].id}/start`, {
        method: 'POST',
        headers: { 'content-type': type },
      });
      assert.equal(started.status, 200, type);
    }
    const deleted = await send(`/api/v2/projects/${project.id}`, {
      method: 'DELETE',
      headers: { 'content-type': 'application/json' },
    });
    assert.equal(deleted.status, 200);
  });

  it('does not read the body of a caller that it does not know', async () => {
    const answer = await send('/api/v2/projects', {
      method: 'POST',
      headers: { 'content-type': 'application/json', authorization: 'Bearer wrong' },
      body: 'x'.repeat(10 * 1024 ** 2),
    });
    assert.equal(answer.status, 401);
  });

  it('answers what is not HTTP in the shape of every error, and closes', async () => {
    const cases: [bytes: string, status: string][] = [
      ['nonsense\r\n\r\n', '400 Bad Request'],
      [
        'GET /api/v2/auth HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n',
        '400 Bad Request',
      ],
      [
        `GET /api/v2/auth HTTP/1.1\r\nHost: a\r\nX: ${'x'.repeat(20_000)}\r\n\r\n`,
        '431 Request Header Fields Too Large',
      ],
    ];
    for (const [bytes, status] of cases) {
      const [head, body] = (await sendBytes(bytes)).split('\r\n\r\n') as [string, string];
      assert.ok(head.startsWith(`HTTP/1.1 ${status}\r\n`), head);
      const { request_id, code, message } = JSON.parse(body);
      assert.match(request_id, UUID);
      assert.equal(code, '');
      assert.match(message, /^the request /);
    }
  });

  it('is alive before it is ready', async () => {
    assert.equal((await send('/healthz')).status, 200);
    const waiting = await send('/readyz');
    assert.equal(waiting.status, 503);
    assert.equal(waiting.headers.get('retry-after'), '2');
    ready = true;
    assert.equal((await send('/readyz')).status, 200);
  });

  describe('what is measured', () => {
    const scrape = (options: { remoteAddress?: string; headers?: Record<string, string> } = {}) =>
      api.app.inject({ path: '/metrics', ...options });

    it('is shown in the text format of Prometheus, with what Node says of itself', async () => {
      const response = await fetch(`${base}/metrics`);
      assert.equal(response.status, 200);
      assert.match(response.headers.get('content-type')!, /^text\/plain; version=0\.0\.4/);
      const shown = await response.text();
      assert.match(shown, /^# TYPE coppice_store_waiting gauge\ncoppice_store_waiting\{pool="a \\"pool\\""\} 3$/m);
      for (const name of [
        'process_cpu_seconds_total',
        'process_resident_memory_bytes',
        'coppice_event_loop_active_seconds_total',
      ]) {
        assert.match(shown, new RegExp(`^${name} `, 'm'));
      }
    });

    it('is for this machine, and elsewhere for people of this installation', async () => {
      const create = async () => (await api.call('POST', '/projects', { body: { project: {} } })).body.project;
      const keys = await addCallers(api, await create(), (await create()).id);
      const from = { remoteAddress: '203.0.113.7' };
      const withKey = (key: string) => scrape({ ...from, headers: { authorization: `Bearer ${key}` } });
      assert.equal((await scrape({ remoteAddress: '::ffff:127.0.0.1' })).statusCode, 200);
      assert.equal((await scrape(from)).statusCode, 401);
      assert.equal((await withKey('wrong')).statusCode, 401);
      assert.equal((await withKey(api.key)).statusCode, 200);
      assert.equal((await withKey(keys.project_key)).statusCode, 404);
      assert.equal((await withKey(keys.organization_key)).statusCode, 404);
    });

    it('is shown by a process that does not serve the API, too, and whether it lives', async () => {
      const metrics = createMetrics([() => [{ name: 'coppice_store_waiting', labels: { pool: 'intent' }, value: 4 }]]);
      const options = { context: api.context, ready: () => true, logger: api.app.log, metrics };
      const server = await createStatusServer(options);
      const get = (path: string, remoteAddress = '127.0.0.1') => server.inject({ path, remoteAddress });
      assert.match((await get('/metrics')).payload, /^coppice_store_waiting\{pool="intent"\} 4$/m);
      assert.equal((await get('/metrics', '203.0.113.7')).statusCode, 401);
      assert.deepEqual([(await get('/healthz')).statusCode, (await get('/readyz')).statusCode], [200, 200]);
      const missing = await get('/api/v2/projects');
      assert.equal(missing.statusCode, 404);
      assert.equal(missing.json().message, 'this route does not exist');
      await server.close();
    });

    it('is not for whom a proxy on this machine lets in, nor for pages that lead a name of theirs here', async () => {
      assert.equal((await scrape({ headers: { 'x-forwarded-for': '203.0.113.7' } })).statusCode, 401);
      assert.equal((await scrape({ headers: { host: 'rebound.example.test:7432' } })).statusCode, 401);
      assert.equal((await scrape({ headers: { host: '127.0.0.1:7432' } })).statusCode, 200);
    });
  });

  it('tells what it serves without a key', async () => {
    const { status, body } = await send('/api/v2/openapi.json', { headers: { authorization: '' } });
    assert.equal(status, 200);
    assert.match(body.openapi, /^3\./);
    const create = body.paths['/api/v2/projects'].post;
    assert.equal(create.requestBody.content['application/json'].schema.properties.project.type, 'object');
    assert.ok(create.responses['201']);
    assert.equal(body.components.securitySchemes.BearerAuth.scheme, 'bearer');
  });

  it('lets the browsers of the origins in that were named, and no others', async () => {
    const ask = (origin: string, method = 'OPTIONS') => send('/api/v2/projects', { method, headers: { origin } });
    const preflight = await ask('https://console.example.test');
    assert.equal(preflight.status, 204);
    assert.equal(preflight.headers.get('access-control-allow-origin'), 'https://console.example.test');
    assert.match(preflight.headers.get('access-control-allow-headers')!, /Authorization/);
    const other = await ask('https://evil.example.test', 'GET');
    assert.equal(other.headers.get('access-control-allow-origin'), null);
  });

  it('shows a failure of its own as a fixed sentence, and logs the cause', async () => {
    const broken = await startTestApi();
    try {
      await broken.store.pool.query('alter table coppice.organizations rename column handle to secret_column');
      const response = await broken.app.inject({
        url: '/api/v2/users/me/organizations',
        headers: { authorization: `Bearer ${broken.key}` },
      });
      // Rows come as they are, so that the answer, and not the statement, is what fails.
      assert.equal(response.statusCode, 500);
      assert.deepEqual(
        { ...response.json<Record<string, string>>(), request_id: '' },
        { request_id: '', code: '', message: 'internal error, see the server log under this request id' },
      );
      const line = broken.log.find((entry) => entry.includes(response.json().request_id) && entry.includes('"err"'));
      assert.match(line!, /handle/);
      assert.equal(
        broken.log.some((entry) => entry.includes(broken.key)),
        false,
      );
    } finally {
      await broken.close();
    }
  });

  it('logs changes with the key that made them', async () => {
    const answer = await send('/api/v2/api_keys', {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'x-request-id': 'audited' },
      body: '{"key_name":"a"}',
    });
    assert.equal(answer.status, 200);
    const line = api.log.map((entry) => JSON.parse(entry)).find((entry) => entry.request_id === 'audited');
    assert.deepEqual(
      [line.method, line.route, line.status, typeof line.key_id, line.level],
      ['POST', '/api/v2/api_keys', 200, 'number', 30],
    );
  });
});
