import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createConnection, type Socket } from 'node:net';
import { after, afterEach, before, describe, it } from 'node:test';
import { neon, neonConfig, Pool } from '@neondatabase/serverless';
import type pg from 'pg';
import type { AccessRules } from '../../src/gateway/contract.ts';
import { BRANCH, ENDPOINT, type GatedPostgres, openGatedPostgres, PASSWORD, ROLE } from '../support/gated-postgres.ts';
import { type HttpDoor, openHttpDoor } from '../support/http-door.ts';
import { until } from '../support/until.ts';
import { logIn, WireClient } from '../support/wire-client.ts';

let gated: GatedPostgres;
let door: HttpDoor;
before(async () => {
  gated = await openGatedPostgres();
  door = await openHttpDoor(gated.gateway);
  neonConfig.fetchEndpoint = () => `${door.url}/sql`;
  neonConfig.wsProxy = () => `127.0.0.1:${door.port}/v2`;
  neonConfig.useSecureWebSocket = false;
});
afterEach(() => allow(undefined));
after(async () => {
  await door?.[Symbol.asyncDispose]();
  await gated?.[Symbol.asyncDispose]();
});

const allow = (access: AccessRules | undefined) => {
  gated.directory.entry = { ...gated.directory.entry, access };
};
const listed = (...allowed_ips: string[]): AccessRules => ({ allowed_ips, private_only: false });
const uri = (password = PASSWORD) =>
  `postgresql://${ROLE}:${encodeURIComponent(password)}@localhost/neondb?options=endpoint%3D${ENDPOINT}`;

/** A plain client from an address of our choice. */
async function openFrom(localAddress: string, port = gated.port): Promise<WireClient & { stream: Socket }> {
  const socket = createConnection({ port, host: '127.0.0.1', localAddress, noDelay: true });
  await once(socket, 'connect');
  return new WireClient(socket) as WireClient & { stream: Socket };
}

const connectFrom = async (localAddress: string, options = `endpoint=${ENDPOINT}`, password = PASSWORD) => {
  const client = await openFrom(localAddress);
  try {
    await logIn(client, { user: ROLE, database: 'neondb', options }, password);
    await client.until('Z');
  } finally {
    client.close();
  }
};

const NOT_ALLOWED = {
  code: '28000',
  message: 'This IP address 127.0.0.1 is not allowed to connect to this endpoint.',
};

const overWebSocket = async (password = PASSWORD) => {
  const pool = new Pool({ connectionString: uri(password) });
  pool.on('error', () => undefined);
  try {
    await pool.query('SELECT 1');
  } finally {
    await pool.end();
  }
};
const ways: [string, (password?: string) => Promise<unknown>][] = [
  ['a direct host', async (password = PASSWORD) => (await gated.connect({ password })).end()],
  [
    'a pooled host',
    async (password = PASSWORD) => (await gated.connect({ password, options: `endpoint=${ENDPOINT}-pooler` })).end(),
  ],
  ['a WebSocket', overWebSocket],
  ['HTTP', async (password = PASSWORD) => neon(uri(password))`SELECT 1`],
];

describe('a client from an address that is not on the list', () => {
  for (const [name, enter] of ways) {
    it(`is told so over ${name}, once it has proved who it is; nothing wakes`, async () => {
      allow(listed('203.0.113.0/24', '127.0.0.2-127.0.0.9', '::/0'));
      await gated.postmaster.stop();
      const { wakes } = gated.waker;
      await assert.rejects(enter(), NOT_ALLOWED);
      await assert.rejects(enter('wrong'), { code: '28P01' });
      assert.equal(gated.waker.wakes, wakes);
      allow(listed('203.0.113.0/24', '127.0.0.1'));
      await enter();
    });
  }

  it('hears what to do about it, and is in the log with its session', async () => {
    allow(listed('203.0.113.7'));
    const error = await gated.connect().then(
      () => assert.fail('was let in'),
      (error: pg.DatabaseError) => error,
    );
    assert.match(error.hint!, /allowed_ips.*IPv4 and over IPv6/);
    const find = () => gated.logged.find(({ session_id }) => error.detail === `session_id: ${session_id}`);
    await until(() => find() !== undefined, { what: 'the line in the log' });
    const logged = find()!;
    assert.deepEqual([logged.endpoint_id, logged.error_code, logged.error_kind], [ENDPOINT, '28000', 'user']);
  });

  it('is told apart by its address', async () => {
    allow(listed('127.0.0.2-127.0.0.3'));
    await connectFrom('127.0.0.2');
    await connectFrom('127.0.0.3');
    await assert.rejects(connectFrom('127.0.0.4'), { message: /^This IP address 127\.0\.0\.4 is not allowed/ });
  });

  it('does not get to the past of the branch either', async () => {
    allow(listed('127.0.0.2'));
    const past = `endpoint=${BRANCH} neon_lsn:0/1`;
    const journeys = gated.waker.journeys.length;
    await assert.rejects(gated.connect({ options: past }), NOT_ALLOWED);
    assert.equal(gated.waker.journeys.length, journeys);
    await connectFrom('127.0.0.2', past);
  });

  it('keeps the session that it has', async () => {
    const client = await gated.connect();
    allow(listed('203.0.113.7'));
    assert.deepEqual((await client.query('SELECT 1 AS one')).rows, [{ one: 1 }]);
    await client.end();
    await assert.rejects(gated.connect(), NOT_ALLOWED);
  });
});

describe('where public connections are blocked', () => {
  it('this machine is let in, if the list has it', async () => {
    allow({ private_only: true });
    await connectFrom('127.0.0.1');
    allow({ private_only: true, allowed_ips: ['203.0.113.7'] });
    await assert.rejects(connectFrom('127.0.0.1'), { message: NOT_ALLOWED.message });
  });
});
