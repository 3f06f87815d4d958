import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createConnection } from 'node:net';
import { after, afterEach, before, describe, it } from 'node:test';
import { Client, neonConfig, Pool } from '@neondatabase/serverless';
import { createWebSocketStream, WebSocket } from 'ws';
import { query, startupMessage } from '../../src/wire/frontend-messages.ts';
import { message } from '../../src/wire/message.ts';
import { ENDPOINT, type GatedPostgres, openGatedPostgres, PASSWORD, ROLE } from '../support/gated-postgres.ts';
import { type HttpDoor, openHttpDoor } from '../support/http-door.ts';
import { until } from '../support/until.ts';
import { WireClient } from '../support/wire-client.ts';

let gated: GatedPostgres;
let door: HttpDoor;
before(async () => {
  gated = await openGatedPostgres();
  door = await openHttpDoor(gated.gateway);
  neonConfig.useSecureWebSocket = false;
});
// The driver does not wait until it is gone.
afterEach(() => until(() => gated.gateway.sessionCount(ENDPOINT) === 0, { what: 'all clients to be gone' }));
after(async () => {
  await door?.[Symbol.asyncDispose]();
  await gated?.[Symbol.asyncDispose]();
});

const STARTUP = startupMessage(Object.entries({ user: ROLE, database: 'neondb' }));
const password = (text = PASSWORD) => message('p', Buffer.from(`${text}\0`));
const SSL_REQUEST = Buffer.from('0000000804d2162f', 'hex');

/** A WebSocket as a byte stream, opened under the endpoint's own name. */
async function open(path = '/v2', host = `${ENDPOINT}.localhost:5432`): Promise<WireClient & { socket: WebSocket }> {
  const socket = new WebSocket(`ws://127.0.0.1:${door.port}${path}`, { headers: { host } });
  await once(socket, 'open');
  const stream = createWebSocketStream(socket);
  stream.on('error', () => undefined);
  return Object.assign(new WireClient(stream), { socket });
}

async function logIn(client: WireClient): Promise<void> {
  client.send(STARTUP, password());
  await client.until('Z');
}

const url = (host: string, options: string, secret = PASSWORD) =>
  `postgresql://${ROLE}:${encodeURIComponent(secret)}@${host}/neondb?options=${encodeURIComponent(options)}`;

describe('the serverless driver over a WebSocket', () => {
  for (const pipelineConnect of ['password', false] as const) {
    describe(pipelineConnect ? 'that sends its password ahead' : 'that waits to be asked', () => {
      const ways: [string, () => string][] = [
        ['the endpoint in its options', () => url('localhost', `endpoint=${ENDPOINT}`)],
        ['the host of its string as the address', () => url(`${ENDPOINT}.localhost`, '')],
        ['the host of another installation', () => url(`${ENDPOINT}.eu-central-1.aws.example.com`, '')],
      ];
      for (const [name, connectionString] of ways) {
        it(`connects and queries by ${name}`, async () => {
          Object.assign(neonConfig, { pipelineConnect, wsProxy: `127.0.0.1:${door.port}/v1` });
          const client = new Client(connectionString());
          await client.connect();
          assert.deepEqual((await client.query('SELECT $1::int + 1 AS sum', [41])).rows, [{ sum: 42 }]);
          const long = 'x'.repeat(3_000_000);
          assert.equal((await client.query('SELECT $1::text AS text', [long])).rows[0].text, long);
          await client.end();
        });
      }

      it('has a pool, transactions and errors', async () => {
        Object.assign(neonConfig, { pipelineConnect, wsProxy: () => `127.0.0.1:${door.port}/v2` });
        const pool = new Pool({ connectionString: url('localhost', `endpoint=${ENDPOINT}`), max: 3 });
        const answers = await Promise.all(
          Array.from({ length: 9 }, (_, at) => pool.query('SELECT $1::int AS at', [at])),
        );
        assert.deepEqual(
          answers.map(({ rows }) => rows[0].at),
          [0, 1, 2, 3, 4, 5, 6, 7, 8],
        );
        await assert.rejects(pool.query('SELECT nothing_here'), { code: '42703' });
        const client = await pool.connect();
        await client.query('BEGIN');
        await client.query('CREATE TEMP TABLE gone (id int) ON COMMIT DROP');
        await client.query('ROLLBACK');
        client.release();
        await pool.end();
      });

      it('is refused with a wrong password, and wakes nobody', async () => {
        Object.assign(neonConfig, { pipelineConnect, wsProxy: `127.0.0.1:${door.port}/v1` });
        await gated.postmaster.stop();
        const { wakes } = gated.waker;
        const expected = { code: '28P01', message: `password authentication failed for user '${ROLE}'` };
        const failed = new Promise((_resolve, reject) => {
          const client = new Client(url('localhost', `endpoint=${ENDPOINT}`, 'npg_wrong'));
          client.on('error', reject);
          client.connect().catch(reject);
        });
        await assert.rejects(failed, expected);
        assert.equal(gated.waker.wakes, wakes);
        const right = new Pool({ connectionString: url('localhost', `endpoint=${ENDPOINT}`) });
        assert.equal((await right.query('SELECT 1 AS one')).rows[0].one, 1);
        assert.equal(gated.waker.wakes, wakes + 1);
        await right.end();
      });
    });
  }
});

describe('a WebSocket', () => {
  it('is a stream of bytes: bounds of messages mean nothing', async () => {
    const client = await open();
    for (const byte of Buffer.concat([STARTUP, password()])) client.send(Buffer.from([byte]));
    await client.until('Z');
    client.send(query('SELECT 1'), query('SELECT 2'));
    await client.until('Z');
    await client.until('Z');
    client.close();
  });

  it('takes the endpoint from the host name that it was opened with', async () => {
    const client = await open('/v2', `${ENDPOINT}-pooler.localhost`);
    await logIn(client);
    client.close();
    const unnamed = await open('/v2', 'localhost');
    unnamed.send(STARTUP, password());
    await assert.rejects(unnamed.until('Z'), /Endpoint ID is not specified/);
    const prefixed = await open('/v2', 'localhost');
    prefixed.send(STARTUP, password(`endpoint=${ENDPOINT};${PASSWORD}`));
    await prefixed.until('Z');
    prefixed.close();
  });

  it('declines encryption of its own, since it lies in TLS or on this machine', async () => {
    const client = await open();
    client.send(SSL_REQUEST);
    assert.equal((await client.bytes(1)).toString(), 'N');
    await logIn(client);
    client.close();
  });

  it('is logged as what it is', async () => {
    const before = gated.ended.length;
    const client = await open();
    await logIn(client);
    client.send(message('X', Buffer.alloc(0)));
    await client.rest();
    await until(() => gated.ended.length > before, { what: 'the end in the log' });
    const { protocol, endpoint_id, user, bytes_out } = gated.ended.at(-1)!;
    assert.deepEqual({ protocol, endpoint_id, user }, { protocol: 'websocket', endpoint_id: ENDPOINT, user: ROLE });
    assert.equal(bytes_out, 0);
  });

  it('cancels what runs for a client that has gone', async () => {
    const client = await open();
    await logIn(client);
    client.send(query('SELECT pg_sleep(600) /* of a client that goes */'));
    const activity = "SELECT state FROM pg_stat_activity WHERE query LIKE '%of a client that goes */'";
    const running = async () => (await gated.postmaster.query(activity)).rows[0]?.state === 'active';
    await until(running, { what: 'the query to run' });
    client.socket.terminate();
    await until(async () => !(await running()), { what: 'the query to be cancelled' });
  });

  it('keeps back what a client does not take', async () => {
    const client = await open();
    await logIn(client);
    const before = gated.ended.length;
    client.stream.pause();
    client.send(query("SELECT repeat('x', 1000000) FROM generate_series(1, 200)"));
    const active = async () =>
      (await gated.postmaster.query("SELECT wait_event FROM pg_stat_activity WHERE query LIKE 'SELECT repeat(%'"))
        .rows[0]?.wait_event;
    await until(async () => (await active()) === 'ClientWrite', { what: 'the server to wait for the client' });
    client.socket.terminate();
    await until(() => gated.ended.length > before, { what: 'the end of the connection' });
    assert.ok(gated.ended.at(-1)!.bytes_out < 50_000_000, `${gated.ended.at(-1)!.bytes_out} bytes were sent`);
  });
});

describe('a WebSocket that is none of ours', () => {
  it('with a text message is closed as such', async () => {
    const client = await open();
    client.socket.send('SELECT 1');
    const [code] = await once(client.socket, 'close');
    assert.equal(code, 1003);
  });

  it('with a message above the bound is closed as too big, before it has come', async () => {
    const socket = createConnection({ port: door.port, host: '127.0.0.1' });
    socket.write(
      `GET /v2 HTTP/1.1\r\nHost: ${ENDPOINT}.localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n`,
    );
    await once(socket, 'data');
    // A masked binary frame whose length word says 1 GB.
    socket.write(Buffer.from('82ff000000004000000001020304', 'hex'));
    const [frame] = (await once(socket, 'data')) as [Buffer];
    assert.deepEqual([frame[0], frame.readUInt16BE(2)], [0x88, 1009]);
    socket.destroy();
  });

  it('at another path is refused', async () => {
    const socket = new WebSocket(`ws://127.0.0.1:${door.port}/v3`);
    const [error] = await once(socket, 'error');
    assert.match(String(error), /hang up|404/);
  });

  it('with garbage inside is told so, and closed', async () => {
    const client = await open();
    client.send(Buffer.alloc(100_000, 1));
    assert.match((await client.rest()).toString(), /invalid length of startup packet/);
  });

  it('that says nothing is closed in time', async () => {
    const limits = { handshake_timeout_ms: 200, linger_timeout_ms: 200 };
    await using other = await openHttpDoor(await gated.openGateway({ limits }));
    const socket = new WebSocket(`ws://127.0.0.1:${other.port}/v2`);
    socket.on('error', () => undefined);
    await once(socket, 'close');
  });
});
