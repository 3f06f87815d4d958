import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import pg from 'pg';
import type { Gateway } from '../../src/gateway/gateway.ts';
import { ENDPOINT, type GatedPostgres, openGatedPostgres, PASSWORD, ROLE } from '../support/gated-postgres.ts';
import { until } from '../support/until.ts';

let gated: GatedPostgres;
before(async () => {
  gated = await openGatedPostgres();
  await gated.postmaster.query('CREATE TABLE kept (note text)', 'neondb');
  await gated.postmaster.query(`GRANT ALL ON kept TO ${ROLE}`, 'neondb');
});
after(() => gated?.[Symbol.asyncDispose]());

/** A client of a gateway, and what ended it. */
interface Held {
  readonly client: pg.Client;
  /** The last error that it heard of, after its connection has ended. */
  readonly ended: Promise<Error | undefined>;
}

async function hold(gateway: Gateway, host: 'direct' | 'pooled'): Promise<Held> {
  const client = new pg.Client({
    host: '127.0.0.1',
    port: gateway.addresses[0]!.port,
    user: ROLE,
    password: PASSWORD,
    database: 'neondb',
    options: `endpoint=${ENDPOINT}${host === 'pooled' ? '-pooler' : ''}`,
  });
  let heard: Error | undefined;
  client.on('error', (error) => {
    heard ??= error;
  });
  const { promise: ended, resolve } = Promise.withResolvers<Error | undefined>();
  client.once('end', () => resolve(heard));
  await client.connect();
  return { client, ended };
}

const sqlState = async ({ ended }: Held): Promise<string | undefined> =>
  ((await ended) as (Error & { code?: string }) | undefined)?.code;

const isLocked = async (key: number): Promise<boolean> => {
  const { rows } = await gated.postmaster.query(
    `SELECT FROM pg_locks WHERE locktype = 'advisory' AND objid = ${key} AND NOT granted`,
  );
  return rows.length > 0;
};

describe('a gateway that stops gently', { timeout: 120_000 }, () => {
  for (const host of ['direct', 'pooled'] as const) {
    it(`ends idle clients of a ${host} host at once, and lets transactions come to their end`, async () => {
      const gateway = await gated.openGateway();
      const idle = await hold(gateway, host);
      const busy = await hold(gateway, host);
      await idle.client.query('SELECT 1');
      await busy.client.query('BEGIN');
      await busy.client.query('INSERT INTO kept VALUES ($1)', [host]);
      const stopped = gateway.stop({ drain: true });
      assert.equal(await sqlState(idle), '57P01');
      await assert.rejects(hold(gateway, host), /ECONNREFUSED/);
      await busy.client.query('INSERT INTO kept VALUES ($1)', [host]);
      await busy.client.query('COMMIT');
      assert.equal(await sqlState(busy), '57P01');
      await stopped;
      const { rows } = await gated.postmaster.query(`SELECT FROM kept WHERE note = '${host}'`, 'neondb');
      assert.equal(rows.length, 2);
    });

    it(`gives a running query of a ${host} host its answer`, async () => {
      const gateway = await gated.openGateway();
      const { client, ended } = await hold(gateway, host);
      const lock = host === 'direct' ? 71 : 72;
      const holder = await gated.connect();
      await holder.query('SELECT pg_advisory_lock($1)', [lock]);
      const asked = client.query(`SELECT 'done' AS it FROM (SELECT pg_advisory_xact_lock(${lock})) AS waited`);
      await until(() => isLocked(lock), { what: 'the query to wait' });
      const stopped = gateway.stop({ drain: true });
      await holder.end();
      assert.deepEqual((await asked).rows, [{ it: 'done' }]);
      await ended;
      await stopped;
    });
  }

  it('ends a transaction that goes on for too long', async () => {
    const gateway = await gated.openGateway({ limits: { drain_timeout_ms: 300 } });
    const direct = await hold(gateway, 'direct');
    const pooled = await hold(gateway, 'pooled');
    for (const { client } of [direct, pooled]) await client.query('BEGIN; INSERT INTO kept VALUES ($$never$$)');
    await gateway.stop({ drain: true });
    await Promise.all([direct.ended, pooled.ended]);
    const { rows } = await gated.postmaster.query("SELECT FROM kept WHERE note = 'never'", 'neondb');
    assert.equal(rows.length, 0);
  });
});
