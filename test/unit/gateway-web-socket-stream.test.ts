import assert from 'node:assert/strict';
import { once } from 'node:events';
import type { AddressInfo, Socket } from 'node:net';
import { buffer } from 'node:stream/consumers';
import { after, before, describe, it } from 'node:test';
import { WebSocket, WebSocketServer } from 'ws';
import { byteBudget } from '../../src/gateway/byte-budget.ts';
import { WebSocketStream } from '../../src/gateway/http/web-socket-stream.ts';

const BUDGET_BYTES = 1_000_000;
const budget = byteBudget(BUDGET_BYTES);
let server: WebSocketServer;
before(async () => {
  server = new WebSocketServer({ port: 0, host: '127.0.0.1' });
  await once(server, 'listening');
});
after(() => server?.close());

/** Both ends of a WebSocket: what a client has, and the stream that the gateway makes of it. */
async function open(): Promise<{ client: WebSocket; stream: WebSocketStream }> {
  const client = new WebSocket(`ws://127.0.0.1:${(server.address() as AddressInfo).port}`);
  const [[socket, request]] = await Promise.all([
    once(server, 'connection') as Promise<[WebSocket, { socket: Socket }]>,
    once(client, 'open'),
  ]);
  const stream = new WebSocketStream(socket, request.socket, budget);
  stream.on('error', () => undefined);
  return { client, stream };
}

/** True when all of the budget is there. */
function isWhole(): boolean {
  const whole = budget.take(BUDGET_BYTES);
  if (whole) budget.give(BUDGET_BYTES);
  return whole;
}

describe('the stream of a WebSocket', () => {
  it('carries what comes in messages of any size, in order, up to the close', async () => {
    const { client, stream } = await open();
    const received = buffer(stream);
    const parts = [Buffer.alloc(300_000, 1), Buffer.alloc(0), Buffer.alloc(1, 2), Buffer.alloc(70_000, 3)];
    for (const part of parts) client.send(part);
    client.close();
    assert.ok((await received).equals(Buffer.concat(parts)));
    assert.ok(isWhole());
  });

  it('carries back what is written, and closes the WebSocket at its end', async () => {
    const { client, stream } = await open();
    const received: Buffer[] = [];
    client.on('message', (data) => received.push(data as Buffer));
    stream.resume();
    stream.write(Buffer.alloc(200_000, 4));
    stream.end(Buffer.alloc(1, 5));
    const [code] = await once(client, 'close');
    assert.deepEqual([code, Buffer.concat(received).length], [1000, 200_001]);
  });

  it('holds what nobody reads within the budget of all, and gives it back', async () => {
    const { client: first, stream } = await open();
    first.send(Buffer.alloc(900_000));
    await once(stream, 'readable');
    const { client: second, stream: other } = await open();
    second.send(Buffer.alloc(900_000));
    const [code] = await once(second, 'close');
    assert.equal(code, 1013);
    assert.ok(other.destroyed);
    const received = buffer(stream);
    first.close();
    assert.equal((await received).length, 900_000);
    assert.ok(isWhole());
  });

  it('breaks with its connection', async () => {
    const { client, stream } = await open();
    const closed = once(stream, 'close');
    client.terminate();
    await closed;
    assert.ok(stream.destroyed);
  });
});
