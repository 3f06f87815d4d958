import type { Duplex } from 'node:stream';
import type { EndpointId } from '../../domain/ids.ts';
import { noticeResponse } from '../../wire/backend-messages.ts';
import { FrameWalker } from '../../wire/frame-walker.ts';
import { cancelQuery } from '../cancel-query.ts';
import type { Waker } from '../contract.ts';
import { ClientGone, type ComputeRefusal, type Refusal, refusals, toRefusal } from '../refusal.ts';
import type { SpliceCounters } from '../splice.ts';
import { type BytePort, openPort, type PortEvents } from './byte-port.ts';
import { ClientMessages } from './client-messages.ts';
import type { Pool, Waiter } from './pool.ts';
import type { Borrower, ServerConnection, ServerEnd } from './server-connection.ts';
import { type Parameters, trackedName } from './tracked-parameters.ts';

export interface PooledClientOptions {
  readonly endpoint_id: EndpointId;
  readonly pool: Pool;
  /** What the client keeps for itself. */
  readonly parameters: Parameters;
  readonly waker: Waker;
  readonly counters: SpliceCounters & { wait_ms: number };
  readonly half_close_timeout_ms: number;
  readonly raw_splice: boolean;
}

/** How a pooled connection ended. */
export interface PooledEnd {
  readonly side: 'client' | 'server';
  /** What the client is to be told last, if anything. */
  readonly refusal: Refusal | ComputeRefusal | undefined;
  /** The client left while something was done for it. */
  readonly abandoned: boolean;
}

const TERMINATE = 'X'.charCodeAt(0);
/** Messages that mean nothing outside of a COPY, and a Flush of nothing. */
const IDLE_NOISE = new Set(['d', 'c', 'f', 'H'].map((letter) => letter.charCodeAt(0)));
/** So much of what a client sends is kept while it waits for a server connection; then it is not read. */
const PENDING_BYTES = 64 * 1024;

/**
 * A client of a pool, from its first query to its end. It has a server connection from the first message that needs one
 * until everything is answered and no transaction is open.
 */
export class PooledClient implements Borrower, PortEvents {
  readonly #options: PooledClientOptions;
  readonly #walker = new FrameWalker();
  readonly #messages: ClientMessages;
  readonly #done = Promise.withResolvers<PooledEnd>();
  #port: BytePort | undefined;
  #server: ServerConnection | undefined;
  /** What was sent last is not on its way yet: it keeps its memory, and the server connection, until it is. */
  #unsent = false;
  #waiter: Waiter | undefined;
  /** What came while the client waits for a server connection, from the start of a message on. */
  #pending: Buffer[] = [];
  #pending_bytes = 0;
  /** The rest of a message that means nothing is still to come. */
  #dropping = false;
  /** The client has said that it leaves, or has closed its half. */
  #leaving = false;
  #ended = false;
  /** What it is told when it has no server connection any more. */
  #draining: Refusal | undefined;
  #silence: NodeJS.Timeout | undefined;

  constructor(options: PooledClientOptions) {
    this.#options = options;
    this.#messages = new ClientMessages(options.pool.statements);
  }

  /**
   * Serves the stream, paused, until the client has left or has to go. The stream is left to `close`.
   * @param early what the client had sent already
   */
  async serve(stream: Duplex, early: Buffer): Promise<PooledEnd> {
    this.#port = await openPort(stream, { raw: this.#options.raw_splice, shares: true }, this);
    this.#port.start(early);
    return this.#done.promise;
  }

  /** Tells the client a last thing, after `serve`, and closes the stream. */
  async close(last: Buffer, timeout_ms: number): Promise<void> {
    await this.#port!.close(last, timeout_ms);
  }

  /** Ends the connection from our side. */
  stop(refusal: Refusal): void {
    this.#end({ side: 'server', refusal, abandoned: false });
  }

  /** Ends the connection from our side as soon as everything is answered and no transaction is open. */
  drain(refusal: Refusal): void {
    this.#draining = refusal;
    if (!this.#server) this.stop(refusal);
  }

  /** Asks the server to end what it does for this client; nothing when it does nothing for it at this moment. */
  async cancel(): Promise<void> {
    const server = this.#server;
    if (!server?.key || !server.busy) return;
    const { endpoint_id, waker } = this.#options;
    await server.trackCancel(cancelQuery({ endpoint_id, key: server.key }, waker));
  }

  onBytes(bytes: Buffer): boolean {
    if (this.#ended || this.#leaving) return true;
    this.#options.counters.bytes_in += bytes.length;
    if (!this.#waiter) return this.#process(bytes);
    this.#keep(bytes);
    return this.#pending_bytes < PENDING_BYTES;
  }

  /** A copy, since the memory is the reader's. */
  #keep(bytes: Buffer): void {
    this.#pending.push(Buffer.from(bytes));
    this.#pending_bytes += bytes.length;
  }

  /** False when what goes to the server is not on its way yet. */
  #process(chunk: Buffer): boolean {
    try {
      const walker = this.#walker;
      if (!walker.feed(chunk)) return true;
      const dropped_bytes = this.#dropping ? walker.carried_bytes : 0;
      if (walker.between) this.#dropping = false;
      this.#messages.begin(dropped_bytes);
      while (walker.next() && this.#passMessage());
      const bytes = this.#messages.finish(walker);
      if (bytes.length > 0 && this.#server) this.#unsent = !this.#server.write(bytes);
      const room = !this.#unsent;
      this.#settle();
      return room;
    } catch (error) {
      this.#fail(error);
      return true;
    }
  }

  /** Takes in the walker's current message. False when the rest waits. */
  #passMessage(): boolean {
    const walker = this.#walker;
    if (walker.type === TERMINATE) {
      this.#leaving = true;
      walker.giveBack();
      return false;
    }
    if (!this.#server) {
      if (IDLE_NOISE.has(walker.type)) {
        this.#messages.drop(walker);
        this.#dropping = !walker.complete;
        return true;
      }
      const server = this.#options.pool.take();
      if (!server) {
        this.#keep(walker.giveBack());
        this.#wait();
        return false;
      }
      const adapted = this.#link(server);
      if (adapted) this.#messages.put(walker, adapted);
    }
    return this.#messages.pass(walker, this.#server!);
  }

  #link(server: ServerConnection): Buffer | undefined {
    this.#server = server;
    server.borrower = this;
    return server.adapt(this.#options.parameters);
  }

  /** After the client's bytes: lets go of a server that has nothing to do, and of a client that wants nothing. */
  #settle(): void {
    if (this.#server?.idle) this.#releaseBetween();
    if (this.#leaving) this.#endWhenDone();
  }

  #wait(): void {
    this.#waiter = {
      give: (server, waited_ms) => {
        this.#options.counters.wait_ms += waited_ms;
        this.#onServer(server);
      },
      fail: (error) => {
        this.#waiter = undefined;
        this.#fail(error);
      },
      tell: (reason) => this.#tell(reason),
    };
    this.#options.pool.wait(this.#waiter);
  }

  #onServer(server: ServerConnection): void {
    this.#waiter = undefined;
    const pending = this.#pending.length === 1 ? this.#pending[0]! : Buffer.concat(this.#pending);
    this.#pending = [];
    this.#pending_bytes = 0;
    const adapted = this.#link(server);
    if (adapted) server.write(adapted);
    if (this.#process(pending) || !this.#server) this.#port!.resume();
  }

  #tell(message: string): void {
    this.#write(noticeResponse({ severity: 'NOTICE', code: '00000', message }));
  }

  #write(bytes: Buffer): boolean {
    this.#options.counters.bytes_out += bytes.length;
    return this.#port!.write(bytes);
  }

  /** The server is idle; the client may be in the middle of a message, or of one that the server does not take yet. */
  #releaseBetween(): void {
    if (!this.#unsent && this.#walker.between) this.#release();
  }

  #release(): void {
    const server = this.#server!;
    this.#server = undefined;
    this.#options.pool.giveBack(server);
    if (this.#draining) this.stop(this.#draining);
  }

  onServerBytes(bytes: Buffer): boolean {
    return this.#ended || this.#write(bytes);
  }

  onServerIdle(): void {
    this.#settle();
  }

  onServerWritable(): void {
    this.#unsent = false;
    if (this.#server?.idle) this.#releaseBetween();
    this.#port?.resume();
  }

  onParameter(name: string, value: string): void {
    if (trackedName(name) === name) this.#options.parameters.set(name, value);
  }

  onDeallocatedAll(): void {
    this.#messages.onDeallocatedAll();
  }

  onServerGone({ said, cut }: ServerEnd): void {
    this.#server = undefined;
    // What the server said last went to the client already.
    const told = cut || said?.severity === 'FATAL' || said?.severity === 'PANIC';
    this.#end({ side: 'server', refusal: told ? undefined : refusals.computeLost(), abandoned: false });
  }

  onEnd(): void {
    // Nothing was begun for it yet.
    if (this.#waiter) {
      this.#abandon();
      return;
    }
    this.#leaving = true;
    this.#endWhenDone();
    if (!this.#ended) this.#watchForSilence();
  }

  /** A client that closes its half early still gets its answers; one to which nothing comes any more has left. */
  #watchForSilence(): void {
    const { counters, half_close_timeout_ms } = this.#options;
    const seen = counters.bytes_out;
    this.#silence = setTimeout(
      () => (counters.bytes_out === seen ? this.#abandon() : this.#watchForSilence()),
      half_close_timeout_ms,
    );
  }

  #endWhenDone(): void {
    const server = this.#server;
    if (this.#waiter || server?.busy) return;
    this.#end({ side: 'client', refusal: undefined, abandoned: server !== undefined });
  }

  onClosed(): void {
    this.#abandon();
  }

  onWritable(): void {
    this.#server?.resume();
  }

  #abandon(): void {
    this.#end({ side: 'client', refusal: undefined, abandoned: this.#server !== undefined });
  }

  #fail(error: unknown): void {
    const refusal = toRefusal(error);
    const between = this.#server?.between ?? true;
    const told = between && !(refusal instanceof ClientGone);
    this.#end({ side: 'server', refusal: told ? refusal : undefined, abandoned: false });
  }

  #end(end: PooledEnd): void {
    if (this.#ended) return;
    this.#ended = true;
    clearTimeout(this.#silence);
    const { pool, endpoint_id, waker } = this.#options;
    if (this.#waiter) pool.stopWaiting(this.#waiter);
    this.#waiter = undefined;
    this.#pending = [];
    const server = this.#server;
    this.#server = undefined;
    if (server) {
      server.borrower = undefined;
      // Nobody waits for the answer any more, and a query that runs on would keep the compute awake.
      const stopped = server.busy && server.key ? cancelQuery({ endpoint_id, key: server.key }, waker) : undefined;
      if (stopped) void stopped.finally(() => pool.discard(server));
      else pool.discard(server);
    }
    this.#messages.close();
    this.#done.resolve(end);
  }
}
