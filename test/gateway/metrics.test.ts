import assert from 'node:assert/strict';
import { after, afterEach, before, beforeEach, describe, it } from 'node:test';
import type pg from 'pg';
import type { Gateway } from '../../src/gateway/gateway.ts';
import type { Distribution } from '../../src/watch/distribution.ts';
import type { MetricName } from '../../src/watch/metric-table.ts';
import { ENDPOINT, type GatedPostgres, openGatedPostgres, PASSWORD, ROLE } from '../support/gated-postgres.ts';
import { type HttpDoor, openHttpDoor } from '../support/http-door.ts';
import { until } from '../support/until.ts';

let gated: GatedPostgres;
let gateway: Gateway;
let door: HttpDoor;
const closers: (() => unknown)[] = [];
before(async () => {
  gated = await openGatedPostgres({ limits: { half_close_timeout_ms: 500, linger_timeout_ms: 200 } });
});
after(() => gated?.[Symbol.asyncDispose]());

const POOLED = `endpoint=${ENDPOINT}-pooler`;
const portOf = (one: Gateway) => one.addresses[0]!.port;

/** A gateway of its own for each test, so that nothing has happened yet. */
beforeEach(async () => {
  gated.directory.entry = { ...gated.directory.entry, pool_size: 2 };
  gated.waker.onWake = () => gated.postmaster.start();
  gateway = await gated.openGateway();
  door = await openHttpDoor(gateway);
});
afterEach(async () => {
  for (const close of closers.splice(0)) await close();
  await door[Symbol.asyncDispose]();
  await gateway.stop();
});

const connect = async (config: pg.ClientConfig = {}, to = gateway): Promise<pg.Client> => {
  const client = await gated.connect({ port: portOf(to), ...config });
  closers.push(() => client.end().catch(() => undefined));
  return client;
};

/** The sum of the samples that have these labels. */
function read(name: MetricName, labels: Record<string, string> = {}, of = gateway): number {
  let sum = 0;
  for (const sample of of.samples()) {
    const fits = Object.entries(labels).every(
      ([key, value]) => (sample.labels as Record<string, string>)[key] === value,
    );
    if (sample.name === name && fits && typeof sample.value === 'number') sum += sample.value;
  }
  return sum;
}

/** How often something was timed. */
function timed(name: MetricName, labels: Record<string, string> = {}): number {
  const found = gateway.samples().find((sample) => {
    return (
      sample.name === name &&
      Object.entries(labels).every(([key, value]) => (sample.labels as Record<string, string>)[key] === value)
    );
  });
  return found ? (found.value as Distribution).counts.reduce((sum, count) => sum + count, 0) : 0;
}

const clients = (host: string, state: string) =>
  read('coppice_gateway_clients', { endpoint_id: ENDPOINT, host, state });
const servers = (state: string) => read('coppice_gateway_server_connections', { endpoint_id: ENDPOINT, state });
const ended = (reason: string) => read('coppice_gateway_connections_ended_total', { endpoint_id: ENDPOINT, reason });

async function sql(query: string, password = PASSWORD): Promise<number> {
  const answer = await fetch(`${door.url}/sql`, {
    method: 'POST',
    headers: {
      'neon-connection-string': `postgresql://${ROLE}:${encodeURIComponent(password)}@localhost/neondb?options=endpoint%3D${ENDPOINT}`,
    },
    body: JSON.stringify({ query }),
  });
  await answer.text();
  return answer.status;
}

describe('the metrics of a gateway', () => {
  it('tell pooled clients apart by what they do, and how long they waited', async () => {
    const all = await Promise.all(Array.from({ length: 6 }, () => connect({ options: POOLED })));
    await until(() => clients('pooled', 'idle') === 6, { what: 'six idle clients' });
    const [one, other, third, ...rest] = all as [pg.Client, pg.Client, pg.Client];
    await Promise.all([one.query('BEGIN'), other.query('BEGIN')]);
    const waiting = third.query('SELECT 1');
    await until(() => clients('pooled', 'waiting') === 1, { what: 'one that waits' });
    assert.deepEqual([clients('pooled', 'active'), clients('pooled', 'idle')], [2, rest.length]);
    assert.deepEqual([servers('in_use'), servers('idle'), servers('opening')], [2, 0, 0]);
    const waited = timed('coppice_gateway_server_wait_seconds');
    const [pool] = gateway.connectionsOf(ENDPOINT, 10).pools;
    assert.deepEqual([pool!.role, pool!.database, pool!.clients], [ROLE, 'neondb', { active: 2, waiting: 1, idle: 3 }]);
    assert.ok(pool!.longest_wait_ms > 0);
    await Promise.all([one.query('COMMIT'), other.query('COMMIT'), waiting]);
    assert.equal(timed('coppice_gateway_server_wait_seconds'), waited + 1);
    await until(() => servers('idle') === 2 && clients('pooled', 'idle') === 6, { what: 'everybody to be idle' });
    assert.equal(gateway.connectionsOf(ENDPOINT, 10).pools[0]!.longest_wait_ms, 0);
  });

  it('count the bytes of sessions while they are open, and do not lose them afterwards', async () => {
    const bytes = () => read('coppice_gateway_sent_bytes_total', { endpoint_id: ENDPOINT });
    for (const options of [POOLED, `endpoint=${ENDPOINT}`]) {
      const before_bytes = bytes();
      const client = await connect({ options });
      await client.query("SELECT repeat('x', 100000)");
      assert.ok(bytes() >= before_bytes + 100_000, `${bytes()} bytes`);
      const open_bytes = bytes();
      await client.end();
      await until(() => gateway.sessionCount(ENDPOINT) === 0, { what: 'the end of the session' });
      assert.ok(bytes() >= open_bytes);
    }
    assert.ok(read('coppice_gateway_received_bytes_total') > 0);
  });

  it('split the time of a wake, on direct and on pooled hosts', async () => {
    for (const options of [`endpoint=${ENDPOINT}`, POOLED]) {
      await (await connect({ options })).end();
      await until(() => gateway.sessionCount(ENDPOINT) === 0, { what: 'the end of the session' });
    }
    assert.equal(timed('coppice_gateway_wake_seconds', { part: 'operation' }), 0, 'nobody had to wake it');
    await gated.postmaster.stop();
    await connect();
    for (const part of ['authentication', 'operation', 'start', 'connect']) {
      assert.equal(timed('coppice_gateway_wake_seconds', { part }), 1, part);
    }
    await until(() => servers('idle') === 0, { what: 'the pool to notice that its server had gone' });
    const pooled = await connect({ options: POOLED });
    await gated.postmaster.stop();
    await pooled.query('SELECT 1');
    assert.equal(timed('coppice_gateway_wake_seconds', { part: 'operation' }), 2);
    assert.equal(timed('coppice_gateway_wake_seconds', { part: 'authentication' }), 1);
  });

  it('say why sessions ended', async () => {
    await (await connect()).end();
    await (await connect({ options: POOLED })).end();
    await until(() => ended('client') === 2, { what: 'two that left in order' });
    const lost = await connect();
    const heard = new Promise((resolve) => lost.once('end', resolve));
    const { rows } = await lost.query('SELECT pg_backend_pid() AS pid');
    await gated.postmaster.query(`SELECT pg_terminate_backend(${rows[0].pid})`);
    await heard;
    await until(() => ended('compute') === 1, { what: 'one that the server ended' });
    await connect();
    await gateway.stop();
    assert.equal(ended('shutdown'), 1);
  });

  it('say who was refused and by which code; a name that nobody proved to know gets no series', async () => {
    await assert.rejects(connect({ password: 'wrong' }));
    await assert.rejects(connect({ options: 'endpoint=ep-of-somebody-else' }));
    const wrong = { endpoint_id: 'other', reason: 'user', code: '28P01' };
    await until(() => read('coppice_gateway_refusals_total', wrong) === 2, { what: 'two refusals' });
    assert.deepEqual(
      new Set(gateway.samples().map(({ labels }) => 'endpoint_id' in labels && labels.endpoint_id)),
      new Set(['other']),
    );
    await connect();
    await assert.rejects(connect({ password: 'wrong' }));
    const known = { ...wrong, endpoint_id: ENDPOINT };
    await until(() => read('coppice_gateway_refusals_total', known) === 1, { what: 'a refusal at the endpoint' });
  });

  it('count requests over HTTP by what came of them', async () => {
    assert.deepEqual(
      [await sql('SELECT 1'), await sql('SELECT nonsense'), await sql('SELECT 1', 'wrong')],
      [200, 400, 400],
    );
    const count = (outcome: string) => read('coppice_gateway_http_requests_total', { endpoint_id: ENDPOINT, outcome });
    await until(() => count('answered') + count('failed') + count('refused') === 3, { what: 'three requests' });
    assert.deepEqual([count('answered'), count('failed'), count('refused')], [1, 1, 1]);
    assert.equal(ended('client'), 0);
  });

  it('have series for so many endpoints, and forget those that nobody has used for a while', async () => {
    const none = await gated.openGateway({ limits: { linger_timeout_ms: 200, measured_endpoints: 0 } });
    await connect({}, none);
    assert.equal(read('coppice_gateway_clients', { endpoint_id: 'other', host: 'direct', state: 'active' }, none), 1);
    assert.equal(read('coppice_gateway_clients', { endpoint_id: ENDPOINT }, none), 0);
    const forgetful = await gated.openGateway({ limits: { linger_timeout_ms: 200, measured_idle_ms: 0 } });
    const client = await connect({}, forgetful);
    const shown = () =>
      forgetful.samples().some(({ labels }) => 'endpoint_id' in labels && labels.endpoint_id === ENDPOINT);
    assert.equal(shown(), true);
    await client.end();
    await until(() => !shown(), { what: 'the endpoint to be forgotten' });
  });
});

describe('the view of an endpoint', () => {
  it('shows direct sessions with who they are and what they do', async () => {
    const client = await connect({ application_name: 'shown' });
    await client.query('SELECT 1');
    const view = gateway.connectionsOf(ENDPOINT, 10);
    const [session] = view.sessions;
    assert.deepEqual(
      [session!.role, session!.database, session!.application_name, session!.state, session!.protocol],
      [ROLE, 'neondb', 'shown', 'active', 'tcp'],
    );
    assert.match(session!.peer!, /^127\.0\.0\.1:\d+$/);
    assert.ok(session!.received_bytes > 0 && session!.sent_bytes > 0);
    assert.deepEqual([view.direct, view.sessions_total], [{ active: 1, waiting: 0 }, 1]);
    assert.deepEqual(gateway.connectionsOf('ep-another-one-12345678', 10).sessions, []);
  });

  it('shows those that wait for the compute, and lists no more than it is asked for', async () => {
    const first = await connect();
    await first.query('SELECT 1');
    await connect();
    const { sessions, sessions_total, direct } = gateway.connectionsOf(ENDPOINT, 1);
    assert.deepEqual([sessions.length, sessions_total, direct.active], [1, 2, 2]);
    await gated.postmaster.stop();
    const woken = Promise.withResolvers<void>();
    gated.waker.onWake = () => woken.promise.then(() => gated.postmaster.start());
    const waiting = connect();
    await until(() => gateway.connectionsOf(ENDPOINT, 1).direct.waiting === 1, { what: 'the one that waits' });
    woken.resolve();
    await waiting;
    assert.equal(gateway.connectionsOf(ENDPOINT, 1).direct.waiting, 0);
  });
});

describe('the line of a connection in the log', () => {
  const lineOf = async (application_name: string) => {
    const find = () => gated.logged.find((line) => line.application_name === application_name);
    await until(() => find() !== undefined, { what: `the line of ${application_name}` });
    return find()!;
  };

  it('says who it was, how it came, where its time went, and why it ended', async () => {
    await gated.postmaster.stop();
    const client = await connect({ application_name: 'line of a direct one' });
    await client.query('SELECT 1');
    await client.end();
    const line = await lineOf('line of a direct one');
    assert.deepEqual(
      [line.endpoint_id, line.pooled, line.user, line.database, line.protocol, line.tls, line.reason],
      [ENDPOINT, false, ROLE, 'neondb', 'tcp', undefined, 'client'],
    );
    assert.match(line.session_id, /^[0-9a-f-]{36}$/);
    assert.match(line.peer!, /^127\.0\.0\.1:\d+$/);
    const parts = [line.authentication_ms, line.wake_ms, line.start_ms, line.connect_ms, line.total_ms, line.wait_ms];
    assert.ok(
      parts.every((part) => Number.isFinite(part)),
      JSON.stringify(line),
    );
    assert.ok(line.wake_ms > 0 && line.bytes_in > 0 && line.bytes_out > 0 && line.connected_at instanceof Date);
  });

  it('tells the waits of a pooled one, and over TLS its version', async () => {
    gated.directory.entry = { ...gated.directory.entry, pool_size: 1 };
    const ssl = { ca: gated.authority_pem, servername: `${ENDPOINT}-pooler.localhost` };
    const client = await connect({ application_name: 'line of a pooled one', options: undefined, ssl });
    const other = await connect({ options: POOLED });
    await other.query('BEGIN');
    const waiting = client.query('SELECT 1');
    await until(() => clients('pooled', 'waiting') === 1, { what: 'one that waits' });
    await other.query('COMMIT');
    await waiting;
    await client.end();
    const line = await lineOf('line of a pooled one');
    assert.deepEqual([line.pooled, line.tls, line.reason], [true, 'TLSv1.3', 'client']);
    assert.ok(line.wait_ms > 0, JSON.stringify(line));
  });

  it('is found by the session id of the error, with the reason', async () => {
    const wrong = { options: POOLED, password: 'wrong', application_name: 'line of a refused one' };
    const error = await connect(wrong).then(
      () => assert.fail('was let in'),
      (refusal: pg.DatabaseError) => refusal,
    );
    const line = await lineOf('line of a refused one');
    assert.equal(error.detail, `session_id: ${line.session_id}`);
    assert.deepEqual([line.reason, line.error_code, line.pooled], ['user', '28P01', true]);
  });
});
