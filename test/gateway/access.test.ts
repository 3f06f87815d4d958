import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createConnection, type Socket } from 'node:net';
import { after, afterEach, before, describe, it } from 'node:test';
import { neon, neonConfig, Pool } from '@neondatabase/serverless';
import type pg from 'pg';
import { type AddressList, addressList } from '../../src/domain/address-rules.ts';
import type { AccessRules } from '../../src/gateway/contract.ts';
import { parseBackendKeyData } from '../../src/wire/backend-messages.ts';
import { query } from '../../src/wire/frontend-messages.ts';
import { BRANCH, ENDPOINT, type GatedPostgres, openGatedPostgres, PASSWORD, ROLE } from '../support/gated-postgres.ts';
import { type HttpDoor, openHttpDoor } from '../support/http-door.ts';
import { proxyHeader, rawProxyHeader } from '../support/proxy-header.ts';
import { sendCancel } from '../support/send-cancel.ts';
import { until } from '../support/until.ts';
import { logIn, WireClient } from '../support/wire-client.ts';

/** Of 400 wrong passwords at once: 20,000 in the long mode. */
const FLOOD_ROUNDS = process.env.COPPICE_TEST_LONG === '1' ? 50 : 1;

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

const sleeps = async (): Promise<boolean> => {
  const { rowCount } = await gated.postmaster.query("SELECT FROM pg_stat_activity WHERE wait_event = 'PgSleep'");
  return rowCount === 1;
};

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

  it('cannot cancel what others do, direct or pooled', async () => {
    for (const options of [`endpoint=${ENDPOINT}`, `endpoint=${ENDPOINT}-pooler`]) {
      allow(undefined);
      const client = await openFrom('127.0.0.2');
      await logIn(client, { user: ROLE, database: 'neondb', options }, PASSWORD);
      const greeting = await client.until('Z');
      const key = parseBackendKeyData(greeting.find(({ letter }) => letter === 'K')!)!;
      client.send(query('SELECT pg_sleep(600)'));
      await until(sleeps, { what: 'the query to run' });
      allow(listed('127.0.0.2'));
      await sendCancel({ port: gated.port, key });
      assert.equal(await sleeps(), true);
      allow(listed('127.0.0.1', '127.0.0.2'));
      await sendCancel({ port: gated.port, key });
      await assert.rejects(client.until('Z'), { message: 'canceling statement due to user request' });
      client.close();
    }
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

describe('behind a load balancer', () => {
  const from = addressList(['127.0.0.1']);
  const ports = { allowed: 0, required: 0, off: 0 };
  before(async () => {
    const portOf = async (proxy?: { required: boolean; from: AddressList }) =>
      (await gated.openGateway({ proxy })).addresses[0]!.port;
    ports.allowed = await portOf({ required: false, from });
    ports.required = await portOf({ required: true, from });
    ports.off = gated.port;
  });

  interface Way {
    readonly mode: keyof typeof ports;
    readonly header?: Buffer;
    readonly localAddress?: string;
    readonly password?: string;
  }

  /** Logs in behind a header; rejects with what the gateway answers. */
  async function enter({ mode, header, localAddress = '127.0.0.1', password = PASSWORD }: Way): Promise<void> {
    const client = await openFrom(localAddress, ports[mode]);
    try {
      if (header) client.send(header);
      await logIn(client, { user: ROLE, database: 'neondb', options: `endpoint=${ENDPOINT}` }, password);
      await client.until('Z');
    } finally {
      client.close();
    }
  }

  const client = { source: '127.0.0.77', port: 4711 };
  const loopback = proxyHeader(client);

  it('the client is whom the header names: for the log,', async () => {
    await assert.rejects(enter({ mode: 'required', header: loopback, password: 'wrong' }), /password/);
    await until(() => gated.logged.some(({ peer }) => peer === '127.0.0.77:4711'), { what: 'the line in the log' });
  });

  it('for the list,', async () => {
    allow(listed('127.0.0.77'));
    await enter({ mode: 'required', header: loopback });
    await enter({ mode: 'allowed', header: loopback });
    await assert.rejects(enter({ mode: 'allowed' }), { message: NOT_ALLOWED.message });
  });

  it('and for what it may do without TLS', async () => {
    const elsewhere = proxyHeader({ source: '198.51.100.9', port: 1 });
    await assert.rejects(enter({ mode: 'allowed', header: elsewhere }), /connection is insecure/);
    const v6 = proxyHeader({ source: '2001:db8:0:0:0:0:0:1', port: 1 });
    await assert.rejects(enter({ mode: 'required', header: v6 }), /connection is insecure/);
    const mapped = proxyHeader({ source: '0:0:0:0:0:ffff:7f00:4d', port: 1 });
    await enter({ mode: 'required', header: mapped });
  });

  it('it goes on with TLS, where public addresses can be blocked', async () => {
    const header = proxyHeader({ source: '198.51.100.9', port: 1 });
    const connect = async () => {
      const { stream } = await openFrom('127.0.0.1', ports.required);
      stream.removeAllListeners('data');
      stream.write(header);
      const config = { ssl: { ca: gated.authority_pem, servername: `${ENDPOINT}.localhost` }, options: undefined };
      // pg connects a stream that it is given; this one is connected.
      const given = Object.assign(stream, { connect: () => void setImmediate(() => stream.emit('connect')) });
      const client = gated.client({ ...config, stream: () => given } as object);
      await client.connect();
      await client.end();
    };
    await connect();
    allow({ private_only: true });
    await assert.rejects(connect(), { code: '28000', message: /public network: 198\.51\.100\.9/ });
  });

  it('a header that stands for nobody leaves the address as it is', async () => {
    allow(listed('127.0.0.1'));
    await enter({ mode: 'required', header: rawProxyHeader(0x20, 0, Buffer.alloc(0)) });
  });

  it('a header is demanded or not, and believed from the balancer alone', async () => {
    await enter({ mode: 'allowed' });
    await enter({ mode: 'allowed', localAddress: '127.0.0.2' });
    await assert.rejects(enter({ mode: 'required' }), /have to begin with a header of the PROXY protocol/);
    const stranger = { localAddress: '127.0.0.2', header: loopback };
    const untrusted = /The PROXY protocol is not taken from 127\.0\.0\.2/;
    await assert.rejects(enter({ mode: 'allowed', ...stranger }), untrusted);
    await assert.rejects(enter({ mode: 'required', ...stranger }), untrusted);
    await assert.rejects(enter({ mode: 'required', header: rawProxyHeader(0x21, 0x31, Buffer.alloc(0)) }), /TCP/);
    await assert.rejects(enter({ mode: 'off', header: loopback }));
  });
});

describe('a flood', () => {
  const limits = {
    failed_logins_per_pair_burst: 5,
    failed_logins_per_address_burst: 8,
    failed_logins_per_endpoint_burst: 12,
  };
  const slow = { failed_logins_per_pair_per_second: 0, failed_logins_per_address_per_second: 0 };
  const none = { ...limits, ...slow, failed_logins_per_endpoint_per_second: 0 };
  const TOO_MANY = 'Too many failed logins. Please try again later.';

  const tryAt = async (port: number, localAddress: string, password: string, options = `endpoint=${ENDPOINT}`) => {
    const client = await openFrom(localAddress, port);
    try {
      await logIn(client, { user: ROLE, database: 'neondb', options }, password);
      await client.until('Z');
      return 'in';
    } catch (error) {
      return (error as Error).message;
    } finally {
      client.close();
    }
  };

  it('of wrong passwords ends at its bound, wakes nothing, and does not keep out others', async () => {
    const { addresses } = await gated.openGateway({ limits: none });
    const { port } = addresses[0]!;
    await gated.postmaster.stop();
    const { wakes } = gated.waker;
    for (let round = 0; round < 5; round++) {
      assert.equal(await tryAt(port, '127.0.0.2', 'wrong'), `password authentication failed for user '${ROLE}'`);
    }
    const asked = gated.directory.refreshed.length;
    for (let round = 0; round < FLOOD_ROUNDS; round++) {
      const answers = await Promise.all(Array.from({ length: 400 }, () => tryAt(port, '127.0.0.2', 'wrong')));
      assert.deepEqual(new Set(answers), new Set([TOO_MANY]));
    }
    // Not even with the right one: guessing on would be worth it.
    assert.equal(await tryAt(port, '127.0.0.2', PASSWORD), TOO_MANY);
    assert.equal(gated.directory.refreshed.length, asked, 'nobody is asked for what is refused');
    assert.equal(gated.waker.wakes, wakes);
    assert.equal(await tryAt(port, '127.0.0.3', PASSWORD), 'in');
    await until(() => gated.logged.some(({ error_code }) => error_code === '53400'), { what: 'the line in the log' });
  });

  it('over many endpoints ends at the bound of its address', async () => {
    const { addresses } = await gated.openGateway({ limits: none });
    const answers: string[] = [];
    for (let at = 0; at < 10; at++) {
      answers.push(await tryAt(addresses[0]!.port, '127.0.0.2', 'wrong', `endpoint=ep-unknown-${at}`));
    }
    assert.deepEqual(
      answers.map((answer) => answer === TOO_MANY),
      [false, false, false, false, false, false, false, false, true, true],
    );
  });

  it('from many addresses ends at the bound of the endpoint, and lets in who was let in before', async () => {
    const { addresses } = await gated.openGateway({ limits: none });
    const { port } = addresses[0]!;
    assert.equal(await tryAt(port, '127.0.0.9', PASSWORD), 'in');
    for (let at = 0; at < 12; at++) await tryAt(port, `127.0.1.${at}`, 'wrong');
    assert.equal(await tryAt(port, '127.0.2.1', PASSWORD), TOO_MANY);
    assert.equal(await tryAt(port, '127.0.0.9', PASSWORD), 'in');
  });

  it('over HTTP ends like any other, with the passwords that wait to be hashed', async () => {
    const gateway = await gated.openGateway({ limits: none });
    const at = await openHttpDoor(gateway);
    const ask = async () => {
      const headers = { 'neon-connection-string': uri('wrong') };
      const response = await fetch(`${at.url}/sql`, { method: 'POST', headers, body: '{"query":"SELECT 1"}' });
      const { code } = (await response.json()) as { code: string };
      return `${response.status} ${code}`;
    };
    try {
      const answers = await Promise.all(Array.from({ length: 60 }, ask));
      const wrong = answers.filter((answer) => answer === '400 28P01').length;
      assert.equal(answers.filter((answer) => answer === '429 53400').length, 60 - wrong);
      // Five, and those that were being hashed when the fifth was found wrong.
      assert.ok(wrong >= 5 && wrong <= 7, `${wrong} were hashed`);
    } finally {
      await at[Symbol.asyncDispose]();
    }
  });

  it('of connections from one address, or to one endpoint, is told so', async () => {
    const few = { connections_per_address_burst: 3, connections_per_address_per_second: 0 };
    const one = { connections_per_endpoint_burst: 2, connections_per_endpoint_per_second: 0 };
    const { addresses } = await gated.openGateway({ limits: { ...few, ...one } });
    const { port } = addresses[0]!;
    assert.equal(await tryAt(port, '127.0.0.2', PASSWORD), 'in');
    assert.equal(await tryAt(port, '127.0.0.3', PASSWORD), 'in');
    const full = 'Too many connections to this endpoint. Please try again later.';
    assert.equal(await tryAt(port, '127.0.0.2', PASSWORD), full);
    assert.equal(await tryAt(port, '127.0.0.2', 'wrong'), `password authentication failed for user '${ROLE}'`);
    const often = 'Too many connections from this address. Please try again later.';
    assert.equal(await tryAt(port, '127.0.0.2', PASSWORD), often);
    assert.equal(await tryAt(port, '127.0.0.3', PASSWORD), full);
  });
});
