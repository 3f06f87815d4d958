import { type Message, ProtocolError, takeMessage } from '../../wire/message.ts';
import { cancelQuery } from '../cancel-query.ts';
import type { Waker } from '../contract.ts';
import { ComputeRefusal, refusals } from '../refusal.ts';
import type { ServerLease, ServerWish } from './contract.ts';
import { UNREAD } from './judge-text.ts';
import { AWAITED } from './outstanding.ts';
import type { Pool, Waiter } from './pool.ts';
import type { Borrower, ServerConnection, ServerEnd } from './server-connection.ts';
import { judgeParse } from './statements.ts';
import type { Parameters } from './tracked-parameters.ts';

const EMPTY = Buffer.alloc(0);
const HEADER_BYTES = 5;
const type = (character: string) => character.charCodeAt(0);
const QUERY = type('Q');
const SYNC = type('S');
const PARSE = type('P');
const CLOSE = type('C');
const COPY_ENDS = new Set([type('c'), type('f')]);
const COPY_DATA = type('d');
const CALL = type('F');

interface Borrowing {
  readonly tracked: Parameters;
  readonly wish: ServerWish;
  readonly waker: Waker;
  readonly signal: AbortSignal;
}

/** Lends a connection of a pool to somebody who speaks in messages. Throws as `ServerPools.acquire`. */
export async function borrow(pool: Pool, borrowing: Borrowing): Promise<ServerLease> {
  pool.hold();
  try {
    return new Lease(await waitForServer(pool, borrowing), pool, borrowing);
  } catch (error) {
    pool.letGo();
    throw error;
  }
}

/** Resolves with a connection that has no borrower yet; one that came too late goes back. */
export function waitForServer(
  pool: Pool,
  { wish, signal }: { readonly wish: Pick<ServerWish, 'onLongWait'>; readonly signal: AbortSignal },
): Promise<ServerConnection> {
  const idle = pool.take();
  if (idle) return Promise.resolve(idle);
  return new Promise((resolve, reject) => {
    const onAbort = () => {
      pool.stopWaiting(waiter);
      reject(signal.reason);
    };
    const over = () => signal.removeEventListener('abort', onAbort);
    const waiter: Waiter = {
      give: (server) => {
        over();
        resolve(server);
      },
      fail: (error) => {
        over();
        reject(error);
      },
      tell: () => wish.onLongWait?.(),
    };
    signal.addEventListener('abort', onAbort, { once: true });
    pool.wait(waiter);
  });
}

class Lease implements ServerLease, Borrower {
  readonly #server: ServerConnection;
  readonly #pool: Pool;
  readonly #borrowing: Borrowing;
  /** Received and not taken. Joined only when a whole message is there, so that a large one costs one copy. */
  #parts: Buffer[] = [];
  #held_bytes = 0;
  #needed_bytes = HEADER_BYTES;
  #end: Error | undefined;
  #released = false;
  #asked: { limit_bytes: number; resolve(message: Message): void; reject(error: unknown): void } | undefined;

  constructor(server: ServerConnection, pool: Pool, borrowing: Borrowing) {
    this.#server = server;
    this.#pool = pool;
    this.#borrowing = borrowing;
    server.borrower = this;
    if (server.closed) this.onServerGone({ said: undefined, cut: false });
    const adapted = this.#end ? undefined : server.adapt(borrowing.tracked);
    if (adapted) server.write(adapted);
  }

  get key() {
    return this.#server.key;
  }

  send(bytes: Buffer): void {
    if (this.#end) return;
    for (let rest = bytes; rest.length > 0; ) {
      const taken = takeMessage(rest, rest.length);
      if (!taken) throw new ProtocolError('only whole messages are sent');
      this.#count(taken.value);
      rest = rest.subarray(taken.bytes);
    }
    this.#server.write(bytes);
  }

  receive(limit_bytes: number): Promise<Message> {
    return new Promise((resolve, reject) => {
      this.#asked = { limit_bytes, resolve, reject };
      this.#answer();
    });
  }

  async cancel(): Promise<void> {
    const { key } = this.#server;
    if (!key || this.#released || this.#end) return;
    const { wish, waker } = this.#borrowing;
    await this.#server.trackCancel(cancelQuery({ endpoint_id: wish.entry.endpoint_id, key }, waker));
  }

  release(outcome: 'clean' | 'broken'): void {
    if (this.#released) return;
    this.#released = true;
    if (outcome === 'clean' && this.#server.idle && this.#held_bytes === 0) this.#pool.giveBack(this.#server);
    else this.#pool.discard(this.#server);
    this.#pool.letGo();
  }

  /** Counts what is about to be sent. What is prepared by name here is nobody else's, and goes at the release. */
  #count({ type: kind, body }: Message): void {
    const server = this.#server;
    if (kind === QUERY) {
      server.note(judgeParse(body));
      server.expectQuery();
    } else if (kind === PARSE) {
      const named = body[0] !== 0;
      server.note(named ? UNREAD : judgeParse(body.subarray(1)));
      server.expectInBatch(AWAITED.parse);
      if (!named) server.unnamed = this;
    } else if (kind === CALL) {
      server.note(UNREAD);
      server.expectQuery();
    } else if (kind === SYNC) server.expectSync();
    else if (kind === CLOSE) server.expectInBatch(AWAITED.close);
    else if (COPY_ENDS.has(kind)) server.expectCopyEnd();
    else if (kind !== COPY_DATA) server.expectInBatch();
  }

  onServerBytes(bytes: Buffer): boolean {
    this.#parts.push(Buffer.from(bytes));
    this.#held_bytes += bytes.length;
    this.#answer();
    return this.#asked !== undefined || this.#held_bytes === 0;
  }

  onServerIdle(): void {}
  onServerWritable(): void {}
  onParameter(): void {}
  onDeallocatedAll(): void {}

  onServerGone({ said }: ServerEnd): void {
    this.#end = said ? new ComputeRefusal(said, EMPTY) : refusals.computeUnreachable(undefined);
    this.#answer();
  }

  #take(limit_bytes: number): Message | undefined {
    const bytes = this.#parts.length === 1 ? this.#parts[0]! : Buffer.concat(this.#parts);
    const taken = takeMessage(bytes, limit_bytes);
    const rest = taken ? bytes.subarray(taken.bytes) : bytes;
    this.#parts = rest.length > 0 ? [rest] : [];
    this.#held_bytes = rest.length;
    this.#needed_bytes = taken ? HEADER_BYTES : 1 + bytes.readInt32BE(1);
    return taken?.value;
  }

  #answer(): void {
    const asked = this.#asked;
    if (!asked) return;
    try {
      const taken = this.#held_bytes >= this.#needed_bytes ? this.#take(asked.limit_bytes) : undefined;
      if (!taken && this.#end) throw this.#end;
      if (taken) {
        this.#asked = undefined;
        asked.resolve(taken);
      } else this.#server.resume();
    } catch (error) {
      this.#asked = undefined;
      asked.reject(error);
    }
  }
}
