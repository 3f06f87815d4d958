import assert from 'node:assert/strict';
import { after, before, beforeEach, describe, it } from 'node:test';
import { WakeError } from '../../src/gateway/contract.ts';
import { ENDPOINT, type GatedPostgres, openGatedPostgres, PASSWORD, ROLE } from '../support/gated-postgres.ts';
import { until } from '../support/until.ts';
import { logIn, openWire } from '../support/wire-client.ts';

let gated: GatedPostgres;
before(async () => {
  gated = await openGatedPostgres();
});
after(() => gated?.[Symbol.asyncDispose]());
beforeEach(() => {
  gated.waker.onWake = () => gated.postmaster.start();
  gated.waker.wakes = 0;
});

const one = async (config = {}) => {
  const client = await gated.connect(config);
  const { rows } = await client.query('SELECT 1 AS one');
  await client.end();
  return rows[0].one;
};

describe('a connection to a sleeping compute', () => {
  it('wakes it and is then served', async () => {
    await gated.postmaster.stop();
    assert.equal(await one(), 1);
    assert.equal(gated.waker.wakes, 1);
    const record = gated.ended.at(-1)!;
    assert.ok(record.wake_ms > 0 && record.connect_ms > 0 && record.connected);
    assert.equal(await one(), 1);
    assert.equal(gated.waker.wakes, 1, 'a running compute is not woken');
  });

  it('is held while the compute stops, and served by the next start', async () => {
    const idle = await gated.connect();
    const closed = new Promise((resolve) => idle.once('end', resolve));
    // A smart shutdown refuses new sessions with 57P03 until the last client has left.
    const stopped = gated.postmaster.stop('SIGTERM');
    gated.waker.onWake = async () => {
      await idle.end();
      await stopped;
      await gated.postmaster.start();
    };
    assert.equal(await one(), 1);
    assert.equal(gated.waker.wakes, 1);
    await closed;
  });

  it('asks for a wake at once when the directory says that it stops', async () => {
    gated.directory.entry = { ...gated.directory.entry, state: 'stopping' };
    assert.equal(await one(), 1);
    gated.directory.entry = { ...gated.directory.entry, state: 'running' };
    assert.equal(gated.waker.wakes, 1);
  });

  it('is told why the compute cannot be woken', async () => {
    await gated.postmaster.stop();
    gated.waker.onWake = () => Promise.reject(new WakeError('57P03', 'the storage pool is full'));
    await assert.rejects(gated.connect(), { code: '57P03', message: 'the storage pool is full', severity: 'FATAL' });
    gated.waker.onWake = () => Promise.reject(new Error('a secret of the inside'));
    await assert.rejects(gated.connect(), { code: 'XX000', message: 'Control plane request failed' });
    const known = () => gated.logged.some(({ error_cause }) => error_cause === 'Error: a secret of the inside');
    await until(known, { what: 'the cause in the log' });
    assert.equal(gated.gateway.sessionCount(ENDPOINT), 0);
  });

  it('gives up in time, and tells the waker', async () => {
    await gated.postmaster.stop();
    const { addresses } = await gated.openGateway({ limits: { wake_timeout_ms: 200 } });
    let aborted = false;
    gated.waker.onWake = (signal) =>
      new Promise(() => {
        signal.addEventListener('abort', () => {
          aborted = true;
        });
      });
    const message = 'The compute did not start in time. Please try again.';
    await assert.rejects(gated.connect({ port: addresses[0]!.port }), { code: '57P03', message });
    assert.equal(aborted, true);
  });

  it('stops waiting when the client leaves', async () => {
    await gated.postmaster.stop();
    let aborted = false;
    gated.waker.onWake = (signal) =>
      new Promise(() => {
        signal.addEventListener('abort', () => {
          aborted = true;
        });
      });
    const wire = await openWire(gated.port);
    await logIn(wire, { user: ROLE, database: 'neondb', options: `endpoint=${ENDPOINT}` }, PASSWORD);
    await until(() => gated.waker.wakes === 1, { what: 'the wake' });
    assert.equal(gated.gateway.sessionCount(ENDPOINT), 1);
    wire.close();
    await until(() => aborted && gated.gateway.sessionCount(ENDPOINT) === 0, { what: 'the wait to be given up' });
    assert.equal(gated.logged.at(-1)?.error_kind, 'clientdisconnect');
  });

  it('is not kept for ever by a compute that wakes and never answers', async () => {
    await gated.postmaster.stop();
    const { addresses } = await gated.openGateway({ limits: { wake_timeout_ms: 500 } });
    gated.waker.onWake = async () => undefined;
    await assert.rejects(gated.connect({ port: addresses[0]!.port }), { code: '57P03' });
    assert.ok(gated.waker.wakes > 1 && gated.waker.wakes < 20, `${gated.waker.wakes} wakes`);
    await gated.postmaster.start();
  });
});

describe('a session', () => {
  it('hears of the shutdown from the server itself, and the next one starts it again', async () => {
    const client = await gated.connect();
    const failed = new Promise<{ code: string }>((resolve) => client.once('error', (error) => resolve(error as never)));
    await gated.postmaster.stop('SIGINT');
    assert.equal((await failed).code, '57P01');
    assert.equal(await one(), 1);
  });

  it('is counted while it is open, and reported with its bytes when it ends', async () => {
    const client = await gated.connect({ application_name: 'counted' });
    assert.equal(gated.gateway.sessionCount(ENDPOINT), 1);
    const { rows } = await client.query("SELECT repeat('x', 100000) AS x");
    assert.equal(rows[0].x.length, 100_000);
    await client.end();
    await until(() => gated.gateway.sessionCount(ENDPOINT) === 0, { what: 'the session to end' });
    const record = gated.ended.find(({ application_name }) => application_name === 'counted')!;
    assert.ok(record.bytes_out > 100_000 && record.bytes_in > 30 && record.bytes_in < 1000, JSON.stringify(record));
    assert.deepEqual(
      [record.endpoint_id, record.user, record.database, record.error_kind],
      [ENDPOINT, ROLE, 'neondb', undefined],
    );
    assert.ok(!JSON.stringify(gated.logged).includes(PASSWORD));
  });

  it('is refused beyond the bound of its endpoint', async () => {
    const { addresses } = await gated.openGateway({ limits: { sessions_per_endpoint: 1 } });
    const first = await gated.connect({ port: addresses[0]!.port });
    const message = 'Too many connections to this endpoint. Please try again later.';
    await assert.rejects(gated.connect({ port: addresses[0]!.port }), { code: '53300', message });
    await first.end();
  });

  it('ends when the gateway stops, as does one that waits', async () => {
    const gateway = await gated.openGateway();
    const port = gateway.addresses[0]!.port;
    const client = await gated.connect({ port });
    const ended = new Promise((resolve) => client.once('end', resolve));
    const waiting = await openWire(port);
    waiting.send(Buffer.from([0, 0]));
    await gateway.stop();
    await ended;
    await waiting.rest();
    await assert.rejects(openWire(port), { code: 'ECONNREFUSED' });
  });
});
