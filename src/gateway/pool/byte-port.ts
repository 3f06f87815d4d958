import type { Duplex } from 'node:stream';
import { closeGently } from '../close-gently.ts';
import type { Pump, PumpEvents, Sink } from '../pump.ts';
import { isRaw, pumpRaw, rawSink } from '../splice-raw.ts';
import { pumpStream, streamSink } from '../splice-stream.ts';

export interface PortEvents {
  /** Bytes came; their memory may be used again. False: no more of them until `resume`, and these stay as they are. */
  onBytes(bytes: Buffer): boolean;
  /** The other side has closed its half: everything that it sent has been seen. */
  onEnd(): void;
  /** Nothing can be read or written any more. Called once. */
  onClosed(error?: Error): void;
  /** Everything written is on its way. */
  onWritable(): void;
}

/** One end of a connection in the pool: bytes in by events, bytes out by writes. */
export interface BytePort {
  readonly stream: Duplex;
  /** False when the bytes are not on their way yet; their memory must then stay as it is until `onWritable`. */
  write(bytes: Buffer): boolean;
  /** Begins to read, with what was read before. Once. */
  start(early: Buffer): void;
  /** Reads on after `onBytes` said false. */
  resume(): void;
  /** Sends the last bytes and closes; what still comes is dropped. Nothing else may be written. */
  close(last: Buffer, timeout_ms: number): Promise<void>;
}

/**
 * Takes a stream over, paused, for as long as it lives. Nothing is read, and nobody hears of its end, before `start`.
 *
 * @param options.shares there are thousands like it, most of them idle
 */
export async function openPort(
  stream: Duplex,
  { raw, shares }: { readonly raw: boolean; readonly shares: boolean },
  events: PortEvents,
): Promise<BytePort> {
  stream.on('error', ignore);
  // Handles must not overtake what the stream has still to write.
  if (stream.writableLength > 0 && !stream.destroyed) {
    await new Promise((resolve) => stream.write(Buffer.alloc(0), resolve));
  }
  return new Port(stream, { direct: raw && isRaw(stream), shares }, events);
}

const ignore = (): void => undefined;

/** What is held by a port is held thousands of times: it has methods in place of functions of its own. */
class Port implements BytePort {
  readonly stream: Duplex;
  readonly #events: PortEvents;
  readonly #how: { readonly direct: boolean; readonly shares: boolean };
  readonly #out: Sink;
  readonly #inlet: Inlet;
  #pump: Pump | undefined;
  #ended = false;
  #closed = false;
  #closing: AbortController | undefined;

  constructor(stream: Duplex, how: { readonly direct: boolean; readonly shares: boolean }, events: PortEvents) {
    this.stream = stream;
    this.#events = events;
    this.#how = how;
    this.#out = how.direct ? rawSink(stream) : streamSink(stream, { copies: true });
    this.#out.onReady = () => events.onWritable();
    // What the other side said last is still to be read.
    this.#out.onError = () => queueMicrotask(() => this.#pump?.discard());
    this.#inlet = new Inlet(this);
  }

  write(bytes: Buffer): boolean {
    return this.stream.destroyed || this.#out.write(bytes);
  }

  resume(): void {
    if (!this.stream.destroyed) this.#inlet.onReady();
  }

  start(early: Buffer): void {
    const { stream } = this;
    const { direct, shares } = this.#how;
    if (stream.closed || stream.destroyed) {
      queueMicrotask(() => this.onClosed());
      return;
    }
    stream.once('close', () => this.onClosed());
    if (early.length > 0) this.#events.onBytes(early);
    // What that did may have ended it.
    if (stream.destroyed) return;
    const inlet = this.#inlet;
    this.#pump = direct ? pumpRaw(stream, inlet, inlet, shares) : pumpStream(stream, inlet, undefined, inlet);
  }

  async close(last: Buffer, timeout_ms: number): Promise<void> {
    const { stream } = this;
    this.#pump?.discard();
    if (stream.destroyed) return;
    const late = setTimeout(() => stream.destroy(), timeout_ms);
    try {
      // A TLS handle that is still writing ends the whole process when its stream writes too.
      await new Promise<void>((resolve) => {
        stream.once('close', resolve);
        this.#out.onError = () => resolve();
        this.#out.end(resolve);
      });
      this.#closing = new AbortController();
      if (this.#ended) this.#closing.abort();
      await closeGently(stream, last, timeout_ms, this.#closing.signal);
    } finally {
      clearTimeout(late);
    }
  }

  onBytes(bytes: Buffer): boolean {
    return this.#events.onBytes(bytes);
  }

  onEnd(): void {
    this.#events.onEnd();
    this.#ended = true;
    this.#closing?.abort();
  }

  onClosed(error?: Error): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#events.onClosed(error);
  }
}

/** Where a port's pump puts what comes, and whom it tells of the end. */
class Inlet implements Sink, PumpEvents {
  readonly #port: Port;
  onReady: () => void = ignore;
  onError: (error: Error) => void = ignore;

  constructor(port: Port) {
    this.#port = port;
  }

  write(bytes: Buffer): boolean {
    return this.#port.onBytes(bytes);
  }

  end(then: () => void): void {
    then();
  }

  readonly count = ignore;

  onEnd(): void {
    this.#port.onEnd();
  }

  onSourceError(error: Error): void {
    this.#port.onClosed(error);
  }

  readonly onSinkError = ignore;
}
