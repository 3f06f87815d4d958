import assert from 'node:assert/strict';
import { type Duplex, duplexPair } from 'node:stream';
import { afterEach, describe, it } from 'node:test';
import { LIMITS } from '../../src/domain/limits.ts';
import { CodeWatch } from '../../src/gateway/pool/code-watch.ts';
import { Pool, type PoolHost, type Waiter } from '../../src/gateway/pool/pool.ts';
import { type Borrower, ServerConnection } from '../../src/gateway/pool/server-connection.ts';
import { TAINT } from '../../src/gateway/pool/session-state.ts';
import { ComputeRefusal } from '../../src/gateway/refusal.ts';
import { errorResponse } from '../../src/wire/backend-messages.ts';
import { query } from '../../src/wire/frontend-messages.ts';
import { cstring, message, takeMessage } from '../../src/wire/message.ts';
import { until } from '../support/until.ts';

const READY = message('Z', Buffer.from('I'));
/** One row with a zero, to whatever is asked. */
const ANSWER = Buffer.concat([
  message('D', Buffer.from([0, 1, 0, 0, 0, 1, 0x30])),
  message('C', cstring('SELECT 1')),
  READY,
]);
const FULL = { severity: 'FATAL', code: '53300', message: 'sorry, too many clients already' };
const SHUT_DOWN = { severity: 'FATAL', code: '57P01', message: 'terminating connection' };
/** It comes true at once, or never: the clocks of the pools here are slower. */
const SOON = { timeout_ms: 10_000 };

/** A server that answers every query at once, and what it says besides. */
async function openServer(): Promise<{ server: ServerConnection; peer: Duplex }> {
  const [stream, peer] = duplexPair();
  let bytes = Buffer.alloc(0);
  peer.on('data', (chunk: Buffer) => {
    bytes = Buffer.concat([bytes, chunk]);
    for (let taken = takeMessage(bytes, bytes.length); taken; taken = takeMessage(bytes, bytes.length)) {
      bytes = bytes.subarray(taken.bytes);
      peer.write(ANSWER);
    }
  });
  const server = await ServerConnection.open({ stream, key: undefined, greeting: [], rest: READY }, false);
  return { server, peer };
}

const refuse = async (): Promise<ServerConnection> => {
  throw new ComputeRefusal(FULL, Buffer.alloc(0));
};

const pools: Pool[] = [];
afterEach(() => {
  for (const pool of pools.splice(0)) pool.close(new Error('the test is over'));
});

/** A pool with room for everybody, whose clock tells nobody of a wait before the test is over. */
function openPool(connect: PoolHost['connect'], others: Partial<PoolHost> = {}): Pool {
  const nothing = () => undefined;
  const pool = new Pool({
    role: 'somebody',
    database: 'neondb',
    timeouts: { wait_notice_ms: 600_000, wait_timeout_ms: 600_000, idle_ms: 600_000, full_retry_ms: 10 },
    code: new CodeWatch(),
    connect,
    takeRoom: () => true,
    isOneTooMany: () => false,
    ...{ giveRoom: nothing, admitWaiter: nothing, waiterLeft: nothing, onWaited: nothing, onUnused: nothing },
    ...others,
  });
  pool.hold();
  pools.push(pool);
  return pool;
}

/** Waits so often, and keeps what is given. */
function waitFor(pool: Pool, count: number): { given: ServerConnection[]; failed: unknown[] } {
  const given: ServerConnection[] = [];
  const failed: unknown[] = [];
  for (let at = 0; at < count; at++) {
    const waiter: Waiter = {
      give: (server) => void given.push(server),
      fail: (error) => void failed.push(error),
      tell: () => undefined,
    };
    pool.wait(waiter);
  }
  return { given, failed };
}

const open = async (): Promise<ServerConnection> => (await openServer()).server;

describe('a pool', () => {
  it('opens as many connections as are waited for, however few may be opened at a time', async () => {
    const count = 2 * LIMITS.pool_openings + 1;
    const { given } = waitFor(openPool(open), count);
    await until(() => given.length === count, { what: 'everybody to have a connection', ...SOON });
    assert.equal(new Set(given).size, count);
  });

  it('asks a server that had no room again, while somebody waits', async () => {
    const attempts = [open, refuse, refuse, open];
    const { given } = waitFor(
      openPool(() => attempts.shift()!()),
      2,
    );
    await until(() => given.length === 2, { what: 'the second connection', ...SOON });
    assert.equal(attempts.length, 0);
  });

  it('tries one alone where all of several were refused', async () => {
    const attempts = [refuse, refuse, refuse, open, open, open];
    const { given, failed } = waitFor(
      openPool(() => attempts.shift()!()),
      3,
    );
    await until(() => given.length + failed.length === 3, { what: 'three answers', ...SOON });
    assert.deepEqual(failed, []);
  });

  it('tells whoever waits that the server has no room for one alone', async () => {
    const { failed } = waitFor(openPool(refuse), 1);
    await until(() => failed.length === 1, { what: 'the refusal', ...SOON });
  });

  it('keeps no connection for which nobody waits any more, and another pool does', async () => {
    const opened = Promise.withResolvers<ServerConnection>();
    const pool = openPool(() => opened.promise, { isOneTooMany: (own_waiting) => own_waiting === 0 });
    const waiter: Waiter = {
      give: () => assert.fail('given'),
      fail: () => assert.fail('failed'),
      tell: () => undefined,
    };
    pool.wait(waiter);
    pool.stopWaiting(waiter);
    const server = await open();
    opened.resolve(server);
    await until(() => server.closed, { what: 'the connection to be closed', ...SOON });
    assert.equal(pool.server_count, 0);
  });

  it('hears a connection again whose borrower had no room for the answer', async () => {
    let room = 1;
    const pool = openPool(open, { takeRoom: () => room-- > 0 });
    const first = waitFor(pool, 1);
    await until(() => first.given.length === 1, { what: 'the connection', ...SOON });
    const server = first.given[0]!;
    let idle = false;
    const nothing = () => undefined;
    // It lets go later than it could, as one does whose own bytes are not all on their way.
    const borrower: Borrower = {
      onServerBytes: () => false,
      onServerIdle: () => {
        idle = true;
      },
      ...{ onServerWritable: nothing, onServerGone: nothing, onParameter: nothing, onDeallocatedAll: nothing },
    };
    server.borrower = borrower;
    server.expectQuery();
    server.write(query('SELECT 1'));
    await until(() => idle, { what: 'the answer', ...SOON });
    pool.giveBack(server);
    const next = waitFor(pool, 1);
    await until(() => next.given.length === 1, { what: 'the connection to be lent again', ...SOON });
    assert.equal(next.given[0], server);
  });

  it('does not lend a connection whose server has said that it ends it', async () => {
    const { server, peer } = await openServer();
    const pool = openPool(async () => server);
    const { given } = waitFor(pool, 1);
    await until(() => given.length === 1, { what: 'the connection', ...SOON });
    pool.giveBack(server);
    await until(() => pool.idle_since < Number.POSITIVE_INFINITY, { what: 'it to be idle', ...SOON });
    // The end of the stream may come much later.
    peer.write(errorResponse(SHUT_DOWN));
    await until(() => pool.server_count === 0, { what: 'the connection to be given up', ...SOON });
    assert.equal(pool.take(), undefined);
  });
});

describe('a server connection that has ended', () => {
  it('answers a query of our own by that', async () => {
    const server = await open();
    server.close();
    const { error } = await server.ask('SELECT 1');
    assert.equal(error?.code, '08006');
  });

  it('while it was asked about code of the database leaves everything possible', async () => {
    const watch = new CodeWatch();
    const server = await open();
    await watch.look(server);
    assert.equal(watch.level, TAINT.none);
    const { server: lost, peer } = await openServer();
    peer
      .removeAllListeners('data')
      .once('data', () => lost.close())
      .resume();
    await watch.look(lost);
    assert.equal(watch.level, TAINT.hard);
    server.close();
  });
});
