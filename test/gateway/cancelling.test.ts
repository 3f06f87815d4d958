import assert from 'node:assert/strict';
import { once } from 'node:events';
import { after, before, describe, it } from 'node:test';
import type { GatewayPeers } from '../../src/gateway/contract.ts';
import type { Gateway } from '../../src/gateway/gateway.ts';
import { type BackendKey, parseBackendKeyData } from '../../src/wire/backend-messages.ts';
import { query } from '../../src/wire/frontend-messages.ts';
import { ENDPOINT, type GatedPostgres, openGatedPostgres, PASSWORD, ROLE } from '../support/gated-postgres.ts';
import { sendCancel as send } from '../support/send-cancel.ts';
import { until } from '../support/until.ts';
import { logIn, openWire, type WireClient } from '../support/wire-client.ts';

let gated: GatedPostgres;
before(async () => {
  gated = await openGatedPostgres({ limits: { half_close_timeout_ms: 500 } });
});
after(() => gated?.[Symbol.asyncDispose]());

/** A session that sleeps for long, and its key. */
async function openSleeper(port = gated.port): Promise<{ wire: WireClient; key: BackendKey }> {
  const wire = await openWire(port);
  await logIn(wire, { user: ROLE, database: 'neondb', options: `endpoint=${ENDPOINT}` }, PASSWORD);
  const greeting = await wire.until('Z');
  const key = parseBackendKeyData(greeting.find(({ letter }) => letter === 'K')!)!;
  wire.send(query('SELECT pg_sleep(600)'));
  await until(sleeps, { what: 'the query to run' });
  return { wire, key };
}

async function sleeps(): Promise<boolean> {
  const { rows } = await gated.postmaster.query(
    "SELECT 1 FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND state = 'active'",
  );
  return rows.length > 0;
}

const sendCancel = (key: BackendKey, options: { tls?: boolean; port?: number } = {}) =>
  send({ port: gated.port, key, ...options });

describe('a cancel request', () => {
  for (const tls of [false, true]) {
    it(`ends the query of its session ${tls ? 'over TLS' : 'over plaintext'}, and says nothing`, async () => {
      const { wire, key } = await openSleeper();
      assert.equal(await sendCancel(key, { tls }), '');
      await assert.rejects(wire.until('Z'), { message: 'canceling statement due to user request' });
      wire.send(query('SELECT 1'));
      await wire.until('Z');
      await wire.until('Z');
      wire.close();
    });
  }

  it('with a wrong key does nothing, and says nothing either', async () => {
    const { wire, key } = await openSleeper();
    const secret = Buffer.from(key.secret);
    secret[0]! ^= 1;
    assert.equal(await sendCancel({ ...key, secret }), '');
    assert.equal(await sendCancel({ ...key, process_id: key.process_id ^ 1 }), '');
    assert.equal(await sleeps(), true);
    assert.equal(await sendCancel(key), '');
    await assert.rejects(wire.until('Z'), { message: 'canceling statement due to user request' });
    wire.close();
  });

  it('after the end of its session does nothing', async () => {
    const { wire, key } = await openSleeper();
    wire.close();
    await until(async () => !(await sleeps()), { what: 'the session to end' });
    await until(() => gated.gateway.sessionCount(ENDPOINT) === 0, { what: 'the session to be forgotten' });
    assert.equal(await sendCancel(key), '');
  });

  it('that comes to another gateway of the same port finds its way to the one that issued the key', async () => {
    const asked: number[] = [];
    const peers = (slot: number, other: () => Gateway): GatewayPeers => ({
      slot,
      cancel: (request) => {
        asked.push(slot);
        return other().cancel(request);
      },
    });
    const first: Gateway = await gated.openGateway({ peers: peers(0, () => second) });
    const second: Gateway = await gated.openGateway({ peers: peers(5, () => first) });
    const { wire, key } = await openSleeper(second.addresses[0]!.port);
    await sendCancel(key, { port: first.addresses[0]!.port });
    await assert.rejects(wire.until('Z'), { message: 'canceling statement due to user request' });
    assert.deepEqual(asked, [0]);
    wire.close();
  });

  it('wakes nothing', async () => {
    await gated.postmaster.stop();
    const { wakes } = gated.waker;
    assert.equal(await sendCancel({ process_id: 1, secret: Buffer.alloc(4) }), '');
    assert.equal(gated.waker.wakes, wakes);
    await gated.postmaster.start();
  });

  it('works from psql: an interrupt ends its statement', async () => {
    const url = `postgresql://${ROLE}@127.0.0.1:${gated.port}/neondb?sslmode=require&options=endpoint%3D${ENDPOINT}`;
    const running = gated.psqlProcess(url, 'SELECT pg_sleep(600)');
    await until(sleeps, { what: 'the query to run' });
    running.kill('SIGINT');
    await until(async () => !(await sleeps()), { what: 'the query to end' });
    if (running.exitCode === null && running.signalCode === null) await once(running, 'exit');
  });
});
