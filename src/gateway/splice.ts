import type { Duplex } from 'node:stream';
import type { Pump, PumpEvents, Sink } from './pump.ts';
import { isRaw, pumpRaw, rawSink } from './splice-raw.ts';
import { pumpStream, streamSink } from './splice-stream.ts';

/** Bytes that went through: `bytes_in` from the client, `bytes_out` to it. */
export interface SpliceCounters {
  bytes_in: number;
  bytes_out: number;
}

export interface SpliceTimeouts {
  /** A client that has closed its side, with nothing coming from the server for so long, has left. */
  readonly half_close_timeout_ms: number;
  /** The client gets so long to take what was sent last. */
  readonly flush_timeout_ms: number;
  /** A client that has everything gets so long to close its side. */
  readonly linger_timeout_ms: number;
}

export interface SpliceOptions {
  readonly counters: SpliceCounters;
  readonly timeouts: SpliceTimeouts;
  /** Changes what the client sends; the other direction is never looked at. */
  readonly filter?: (chunk: Buffer) => Buffer;
  /** False keeps to the public stream API. */
  readonly raw: boolean;
}

export interface SpliceEnd {
  /** The side that closed, or broke, first. */
  readonly side: 'client' | 'server';
  readonly error?: Error;
  /** The server had not closed by itself: it may still be at work for the client. */
  readonly abandoned: boolean;
}

/**
 * Joins a client and a server, both paused, until both are closed. The end of one side is passed on as a half-close, so
 * that a client that closes early still gets its answers, and what the server said last reaches the client.
 */
export async function splice(client: Duplex, server: Duplex, options: SpliceOptions): Promise<SpliceEnd> {
  // Handles must not overtake what the streams have still to write.
  await Promise.all([flushed(client), flushed(server)]);
  return new Splice(client, server, options).done;
}

async function flushed(stream: Duplex): Promise<void> {
  if (stream.writableLength === 0 || stream.destroyed) return;
  await new Promise((resolve) => stream.write(Buffer.alloc(0), resolve));
}

class Splice {
  readonly done: Promise<SpliceEnd>;
  readonly #client: Duplex;
  readonly #server: Duplex;
  readonly #options: SpliceOptions;
  readonly #fromClient: Pump;
  readonly #toClient: Sink;
  #first: Pick<SpliceEnd, 'side' | 'error'> | undefined;
  #clientEnded = false;
  #serverEnded = false;
  #abandoned = false;
  #timer: NodeJS.Timeout | undefined;

  constructor(client: Duplex, server: Duplex, options: SpliceOptions) {
    this.#client = client;
    this.#server = server;
    this.#options = options;
    this.done = this.#untilClosed();
    const { counters, filter } = options;
    const raw = new Map([
      [client, options.raw && !filter && isRaw(client)],
      [server, options.raw && isRaw(server)],
    ]);
    const sinkOf = (sink: Duplex, source: Duplex) =>
      raw.get(sink) ? rawSink(sink) : streamSink(sink, { copies: raw.get(source)! });
    const pump = (source: Duplex, sink: Sink, events: PumpEvents) => {
      if (raw.get(source)) return pumpRaw(source, sink, events);
      return pumpStream(source, sink, source === client ? filter : undefined, events);
    };
    this.#toClient = sinkOf(client, server);
    this.#fromClient = pump(client, sinkOf(server, client), {
      count: (bytes) => {
        counters.bytes_in += bytes;
      },
      onEnd: () => this.#onClientEnd(),
      onSourceError: (error) => this.#onClientBroken(error),
      // The server may have said why before it closed; its own end is still to be read.
      onSinkError: () => queueMicrotask(() => this.#fromClient.discard()),
    });
    pump(server, this.#toClient, {
      count: (bytes) => {
        counters.bytes_out += bytes;
      },
      onEnd: () => this.#onServerEnd(),
      onSourceError: (error) => this.#onServerEnd(error),
      onSinkError: (error) => this.#onClientBroken(error),
    });
  }

  /** Resolves when both streams are closed; the close of one, however it came about, ends the other. */
  async #untilClosed(): Promise<SpliceEnd> {
    const closed = (stream: Duplex, then: () => void) =>
      new Promise<void>((resolve) => {
        const onClose = () => {
          then();
          resolve();
        };
        if (stream.closed) queueMicrotask(onClose);
        else stream.once('close', onClose);
      });
    await Promise.all([
      closed(this.#client, () => this.#onClientBroken()),
      closed(this.#server, () => this.#onServerEnd()),
    ]);
    return { ...this.#first!, abandoned: this.#abandoned };
  }

  #onClientEnd(): void {
    this.#first ??= { side: 'client' };
    this.#clientEnded = true;
    if (this.#serverEnded) {
      this.#destroyIfFlushed();
      return;
    }
    this.#server.end();
    this.#watchForSilence();
  }

  #watchForSilence(): void {
    const { counters, timeouts } = this.#options;
    const seen = counters.bytes_out;
    this.#timer = setTimeout(
      () => (counters.bytes_out === seen ? this.#destroy() : this.#watchForSilence()),
      timeouts.half_close_timeout_ms,
    );
  }

  #onClientBroken(error?: Error): void {
    this.#first ??= { side: 'client', error };
    this.#destroy();
  }

  #onServerEnd(error?: Error): void {
    if (this.#serverEnded) return;
    this.#first ??= { side: 'server', error };
    this.#serverEnded = true;
    // Closing with unread input would reset the connection, and take back the server's last words.
    this.#fromClient.discard();
    const { flush_timeout_ms, linger_timeout_ms } = this.#options.timeouts;
    this.#startTimer(flush_timeout_ms);
    this.#toClient.end(() => {
      this.#client.end(() => {
        if (this.#client.destroyed) return;
        this.#startTimer(linger_timeout_ms);
        this.#destroyIfFlushed();
      });
    });
  }

  #destroyIfFlushed(): void {
    if (this.#clientEnded && this.#client.writableFinished) this.#destroy();
  }

  #startTimer(delay_ms: number): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#destroy(), delay_ms);
  }

  #destroy(): void {
    clearTimeout(this.#timer);
    if (!this.#serverEnded && !this.#server.destroyed) this.#abandoned = true;
    this.#serverEnded = true;
    this.#client.destroy();
    this.#server.destroy();
  }
}
