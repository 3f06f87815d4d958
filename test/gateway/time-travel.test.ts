import assert from 'node:assert/strict';
import { after, before, beforeEach, describe, it } from 'node:test';
import type pg from 'pg';
import { WakeError } from '../../src/gateway/contract.ts';
import { parseBackendKeyData } from '../../src/wire/backend-messages.ts';
import { cancelRequest, query } from '../../src/wire/frontend-messages.ts';
import { BRANCH, type GatedPostgres, openGatedPostgres, PASSWORD, ROLE } from '../support/gated-postgres.ts';
import { until } from '../support/until.ts';
import { logIn, openWire } from '../support/wire-client.ts';

const LSN = 'neon_lsn:0/1A2B3C8';
const POINT = { kind: 'lsn', text: '0/1A2B3C8' };

let gated: GatedPostgres;
before(async () => {
  gated = await openGatedPostgres();
});
after(() => gated?.[Symbol.asyncDispose]());
beforeEach(() => {
  gated.waker.journeys.length = 0;
  gated.waker.onTravel = () => Promise.resolve();
});

const refused = (config: pg.ClientConfig, expected: object) => assert.rejects(gated.client(config).connect(), expected);
const answers = async (config: pg.ClientConfig) => {
  const client = await gated.connect(config);
  const { rows } = await client.query("SELECT current_setting('application_name') AS name");
  await client.end();
  return rows[0].name;
};

describe('a connection to a branch at a point', () => {
  it('goes to the place that is made for it, in the name of the role that was let in', async () => {
    const options = `endpoint=${BRANCH} ${LSN} -c application_name=then`;
    assert.equal(await answers({ options }), 'then');
    assert.deepEqual(gated.waker.journeys, [{ point: POINT, role: ROLE }]);
    const { endpoint_id, wake_ms } = gated.ended.at(-1)!;
    assert.equal(endpoint_id, BRANCH);
    assert.ok(wake_ms > 0);
  });

  it('names the branch by its host, with channel binding', async () => {
    const host = `${BRANCH}.localhost`;
    const conninfo = `host=${host} hostaddr=127.0.0.1 port=${gated.port} user=${ROLE} dbname=neondb sslmode=verify-full sslrootcert=${gated.authority_file} channel_binding=require options='neon_timestamp:2026-11-21T00:00:00Z'`;
    assert.equal(await gated.psql(conninfo, 'select 1'), '1');
    assert.deepEqual(gated.waker.journeys[0]!.point, { kind: 'timestamp', text: '2026-11-21T00:00:00Z' });
  });

  it('names the branch in its password', async () => {
    await answers({ options: LSN, password: `endpoint=${BRANCH};${PASSWORD}` });
    assert.equal(gated.waker.journeys.length, 1);
  });

  it('can be cancelled', async () => {
    const wire = await openWire(gated.port);
    await logIn(wire, { user: ROLE, database: 'neondb', options: `endpoint=${BRANCH} ${LSN}` }, PASSWORD);
    const greeting = await wire.until('Z');
    const key = parseBackendKeyData(greeting.find(({ letter }) => letter === 'K')!)!;
    wire.send(query('SELECT pg_sleep(600)'));
    const sleeps = async () =>
      (await gated.postmaster.query("SELECT FROM pg_stat_activity WHERE wait_event = 'PgSleep'")).rows.length > 0;
    await until(sleeps, { what: 'the query to run' });
    const other = await openWire(gated.port);
    other.send(cancelRequest(key));
    await assert.rejects(wire.until('Z'), { message: 'canceling statement due to user request' });
    wire.close();
  });

  it('makes nothing for a wrong password, an unknown role or an unknown branch, which all look the same', async () => {
    for (const config of [
      { options: `endpoint=${BRANCH} ${LSN}`, password: 'wrong' },
      { options: `endpoint=${BRANCH} ${LSN}`, user: 'nobody' },
      { options: `endpoint=br-no-such-a1b2c3d4 ${LSN}` },
      { options: LSN, password: `endpoint=br-no-such-a1b2c3d4;${PASSWORD}` },
    ]) {
      const user = 'user' in config ? config.user : ROLE;
      await refused(config, { code: '28P01', message: `password authentication failed for user '${user}'` });
    }
    assert.deepEqual(gated.waker.journeys, []);
  });

  it('is told why it cannot be served', async () => {
    gated.waker.onTravel = () => Promise.reject(new WakeError('22023', 'there is no history at then'));
    await refused({ options: `endpoint=${BRANCH} ${LSN}` }, { code: '22023', message: 'there is no history at then' });
    const line = () => gated.logged.find(({ error_code }) => error_code === '22023');
    await until(() => line() !== undefined, { what: 'the line in the log' });
    assert.equal(line()!.error_kind, 'user');
  });

  it('is not one that replicates', async () => {
    const options = `endpoint=${BRANCH} ${LSN}`;
    await refused({ options, replication: 'database' } as pg.ClientConfig, { code: '0A000', message: /replicated/ });
    assert.deepEqual(gated.waker.journeys, []);
  });

  const cases: [string, pg.ClientConfig, object][] = [
    ['no point', { options: `endpoint=${BRANCH}` }, { code: '08004', message: /is a branch/, hint: /neon_timestamp/ }],
    ['a point of an endpoint', { options: `endpoint=ep-x ${LSN}` }, { code: '08004', message: /is an endpoint/ }],
    ['two points', { options: `endpoint=${BRANCH} ${LSN} neon_timestamp:x` }, { code: '22023', message: /one of/ }],
    ['an unknown option', { options: `endpoint=${BRANCH} neon_pace:slow` }, { code: '22023', message: /neon_pace/ }],
    ['no point but in the password', { options: undefined, password: `endpoint=${BRANCH};x` }, { message: /a branch/ }],
  ];
  for (const [name, config, expected] of cases) it(`is refused with ${name}`, () => refused(config, expected));
});
