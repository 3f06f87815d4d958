import { Duplex } from 'node:stream';
import type { WebSocket } from 'ws';
import type { ByteBudget } from '../byte-budget.ts';

/** Codes of RFC 6455: why a WebSocket is closed. */
const NORMAL = 1000;
const UNSUPPORTED_DATA = 1003;
const ABNORMAL = 1006;
const TRY_AGAIN_LATER = 1013;

/** What is passed on at once, so that a large message waits here and in no buffer behind. */
const SLICE_BYTES = 64 * 1024;

/**
 * The bytes of a WebSocket's binary messages, whose bounds mean nothing. A text message is an error. Ending the stream
 * closes the WebSocket, after which the client cannot be read any more: a WebSocket has no half-close.
 *
 * A message is held until its last byte has come, and then until it has been read. What all streams together hold of
 * messages beyond a slice is taken from `budget`; the client for whom nothing is left is closed.
 */
export class WebSocketStream extends Duplex {
  readonly #socket: WebSocket;
  readonly #budget: ByteBudget;
  /** Received and not passed on. */
  #waiting: Buffer[] = [];
  /** Bytes that came since all was read. */
  #held_bytes = 0;
  /** Of those, what is taken from the budget. */
  #taken_bytes = 0;
  /** The WebSocket closes by itself, and its last frame should still arrive. */
  #closing = false;
  #over = false;
  #ended = false;

  /** @param carrier the connection below the WebSocket */
  constructor(socket: WebSocket, carrier: Duplex, budget: ByteBudget) {
    super();
    this.#socket = socket;
    this.#budget = budget;
    carrier.prependListener('data', (chunk: Buffer) => this.#count(chunk.length));
    socket.on('message', (data, isBinary) => this.#receive(data as Buffer, isBinary));
    socket.on('error', (error) => this.#break(error));
    socket.on('close', (code) => this.#closed(code));
  }

  #count(bytes: number): void {
    this.#held_bytes += bytes;
    const more_bytes = this.#held_bytes - this.#taken_bytes - SLICE_BYTES;
    if (more_bytes <= 0 || this.destroyed) return;
    if (this.#budget.take(more_bytes)) this.#taken_bytes += more_bytes;
    else {
      this.#socket.close(TRY_AGAIN_LATER);
      this.#break(new Error('too much is held for clients that send large messages'));
    }
  }

  #release(): void {
    this.#budget.give(this.#taken_bytes);
    this.#taken_bytes = 0;
    this.#held_bytes = 0;
  }

  #receive(bytes: Buffer, isBinary: boolean): void {
    if (this.destroyed) return;
    if (isBinary) {
      if (bytes.length > 0) this.#waiting.push(bytes);
      this.#pass();
    } else {
      this.#socket.close(UNSUPPORTED_DATA);
      this.#break(new Error('the client sent a text message where bytes were expected'));
    }
  }

  /** Passes on what there is until the reader has enough. */
  #pass(): void {
    for (let first = this.#waiting[0]; first; first = this.#waiting[0]) {
      const slice = first.subarray(0, SLICE_BYTES);
      if (slice.length === first.length) this.#waiting.shift();
      else this.#waiting[0] = first.subarray(slice.length);
      if (!this.push(slice)) {
        this.#socket.pause();
        return;
      }
    }
    this.#release();
    if (!this.#over) this.#socket.resume();
    else if (!this.#ended) {
      this.#ended = true;
      this.push(null);
    }
  }

  #break(error: Error): void {
    this.#closing = true;
    this.destroy(error);
  }

  #closed(code: number): void {
    this.#over = true;
    if (code === ABNORMAL) this.destroy();
    if (this.destroyed) return;
    this.end();
    this.#pass();
  }

  override _read(): void {
    if (!this.#ended) this.#pass();
  }

  override _write(chunk: Buffer, _encoding: BufferEncoding, done: (error?: Error | null) => void): void {
    if (this.#socket.readyState === this.#socket.OPEN) this.#socket.send(chunk, { binary: true }, done);
    else done();
  }

  override _writev(chunks: { chunk: Buffer }[], done: (error?: Error | null) => void): void {
    const bytes = chunks.length === 1 ? chunks[0]!.chunk : Buffer.concat(chunks.map(({ chunk }) => chunk));
    this._write(bytes, 'binary', done);
  }

  override _final(done: (error?: Error | null) => void): void {
    this.#socket.close(NORMAL);
    done();
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    this.#waiting = [];
    this.#release();
    if (!this.#closing) this.#socket.terminate();
    done(error);
  }
}
