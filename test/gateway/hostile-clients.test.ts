import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createConnection, type Socket } from 'node:net';
import { after, before, describe, it } from 'node:test';
import { startupMessage } from '../../src/wire/frontend-messages.ts';
import { type GatedPostgres, openGatedPostgres, ROLE } from '../support/gated-postgres.ts';
import { heldBytes } from '../support/held-bytes.ts';
import { openWire } from '../support/wire-client.ts';

let gated: GatedPostgres;
/** Patience is short here. */
let port: number;
before(async () => {
  gated = await openGatedPostgres();
  const limits = { handshake_timeout_ms: 300, authentication_timeout_ms: 300, linger_timeout_ms: 200 };
  port = (await gated.openGateway({ limits })).addresses[0]!.port;
});
after(() => gated?.[Symbol.asyncDispose]());

const word = (length: number) => {
  const bytes = Buffer.alloc(4);
  bytes.writeInt32BE(length | 0);
  return bytes;
};
const SSL_REQUEST = Buffer.from('0000000804d2162f', 'hex');
const STARTUP = startupMessage([
  ['user', ROLE],
  ['options', 'endpoint=ep-x'],
]);

/** What arrives, and should never get further. */
const GARBAGE: [string, Buffer][] = [
  ['nothing at all', Buffer.alloc(0)],
  ['random bytes', randomBytes(5000)],
  ['a megabyte of zeros', Buffer.alloc(1_000_000)],
  ['half a length word', Buffer.from([0, 0])],
  ['a length of a gigabyte', Buffer.concat([word(2 ** 30), Buffer.alloc(100_000, 1)])],
  ['a negative length', word(-5)],
  ['a length just above the bound', Buffer.concat([word(10_001), Buffer.alloc(10_001)])],
  ['a startup packet without its end', STARTUP.subarray(0, STARTUP.length - 1)],
  ['HTTP', Buffer.from('GET / HTTP/1.1\r\nHost: localhost\r\n\r\n')],
  ['half a TLS hello', Buffer.from('1603010200010001fc0303', 'hex')],
  ['a TLS record that is none', Buffer.concat([Buffer.from([0x16, 3, 1, 255, 255]), randomBytes(3000)])],
  ['an SSLRequest and silence', SSL_REQUEST],
  ['an SSLRequest and garbage', Buffer.concat([SSL_REQUEST, randomBytes(1000)])],
  ['an SSLRequest and a startup packet in plain', Buffer.concat([SSL_REQUEST, STARTUP])],
  ['two SSLRequests', Buffer.concat([SSL_REQUEST, SSL_REQUEST])],
  ['two GSS requests', Buffer.from('0000000804d216300000000804d21630', 'hex')],
  ['an unheard-of version', Buffer.from('0000000900090000ff', 'hex')],
  ['a startup packet and silence', STARTUP],
  ['a startup packet and a query', Buffer.concat([STARTUP, Buffer.from('510000000653310000', 'hex')])],
  [
    'a startup packet and a huge password',
    Buffer.concat([STARTUP, Buffer.from('70'), word(2 ** 30), Buffer.alloc(65_536)]),
  ],
  [
    'a startup packet and a malformed SASL message',
    Buffer.concat([STARTUP, Buffer.from('700000000a58000000ffff', 'hex')]),
  ],
  ['a cancel with a wrong length', Buffer.concat([word(12), Buffer.from('04d2162e', 'hex'), Buffer.alloc(4)])],
];

async function untilClosed(socket: Socket): Promise<void> {
  socket.on('error', () => undefined);
  socket.resume();
  if (!socket.closed) await once(socket, 'close');
}

describe('garbage', () => {
  for (const [name, bytes] of GARBAGE) {
    it(`is closed in time, and hurts nobody else: ${name}`, async () => {
      const socket = createConnection({ port, host: '127.0.0.1' });
      const closed = untilClosed(socket);
      socket.write(bytes);
      const other = await gated.connect();
      await other.query('SELECT 1');
      await other.end();
      await closed;
    });
  }

  it('is closed in time when it comes byte by byte', async () => {
    const socket = createConnection({ port, host: '127.0.0.1', noDelay: true });
    const closed = untilClosed(socket);
    for (let at = 0; !socket.closed; at = (at + 1) % (STARTUP.length - 1)) {
      if (socket.writable) socket.write(STARTUP.subarray(at, at + 1));
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
    await closed;
  });

  it('is told that authentication timed out where it got that far', async () => {
    // With time to get that far.
    const gateway = await gated.openGateway({ limits: { authentication_timeout_ms: 1000, linger_timeout_ms: 200 } });
    const wire = await openWire(gateway.addresses[0]!.port);
    wire.send(STARTUP);
    await wire.until('R');
    await assert.rejects(wire.until('R'), { message: 'Authentication timed out' });
    wire.close();
  });

  it('takes little memory', async () => {
    const sockets = Array.from({ length: 200 }, () => createConnection({ port: gated.port, host: '127.0.0.1' }));
    const before = heldBytes();
    // A length that is allowed, so that it is waited for, and then much more than that.
    const flood = Buffer.concat([word(10_000), Buffer.alloc(500_000)]);
    await Promise.all(sockets.map((socket) => once(socket, 'connect')));
    for (const socket of sockets) {
      socket.on('error', () => undefined);
      socket.write(flood);
    }
    const other = await gated.connect();
    await other.end();
    assert.ok(heldBytes() - before < 200 * 100_000);
    for (const socket of sockets) socket.destroy();
  });
});

describe('the crowd at the door', () => {
  it('is bounded: the next one is told so, and those behind are served again once there is room', async () => {
    const gateway = await gated.openGateway({ limits: { unauthenticated_connections: 2, linger_timeout_ms: 200 } });
    const full = gateway.addresses[0]!.port;
    const [first, second] = [await openWire(full), await openWire(full)];
    first.send(STARTUP);
    await first.until('R');
    second.send(STARTUP);
    await second.until('R');
    const message = 'Too many connections are waiting to log in. Please try again later.';
    await assert.rejects(gated.connect({ port: full }), { code: '53300', message });
    first.close();
    second.close();
    const served = async (): Promise<boolean> =>
      gated.connect({ port: full }).then(
        (client) => client.end().then(() => true),
        () => false,
      );
    while (!(await served()));
  });

  it('does not count who has logged in', async () => {
    const gateway = await gated.openGateway({ limits: { unauthenticated_connections: 1 } });
    const clients = [];
    for (let count = 0; count < 4; count++) clients.push(await gated.connect({ port: gateway.addresses[0]!.port }));
    for (const client of clients) await client.end();
  });
});
