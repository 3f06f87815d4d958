import type { Duplex } from 'node:stream';
import type { Taken } from '../wire/message.ts';

const EMPTY = Buffer.alloc(0);

/**
 * Reads a stream by parsers, for the talk before bytes are spliced. Holds little: beyond `limit_bytes` it stops
 * reading until a parser takes some.
 */
export class ByteChannel {
  readonly stream: Duplex;
  readonly #limit_bytes: number;
  readonly #closedError: (cause?: Error) => Error;
  #gone: AbortController | undefined;
  #buffered: Buffer = EMPTY;
  #failure: Error | undefined;
  #waiting: { retry(): void; fail(error: Error): void } | undefined;

  /** @param closedError what to fail with when the peer closes its side or the stream breaks */
  constructor(stream: Duplex, limit_bytes: number, closedError: (cause?: Error) => Error) {
    this.stream = stream;
    this.#limit_bytes = limit_bytes;
    this.#closedError = closedError;
    stream.on('data', this.#onData).on('end', this.#onEnd).on('close', this.#onEnd).on('error', this.#onError);
    if (stream.destroyed || stream.readableEnded) this.#onEnd();
  }

  /** The peer has closed its side, or the channel has failed. */
  get failed(): boolean {
    return this.#failure !== undefined;
  }

  /** Aborted as soon as it has failed; of no more use once it was released. */
  get gone(): AbortSignal {
    this.#gone ??= new AbortController();
    if (this.#failure) this.#gone.abort(this.#failure);
    return this.#gone.signal;
  }

  /** The next value that `parse` finds at the start of the bytes; it is called again whenever there are more of them. */
  take<T>(parse: (bytes: Buffer) => Taken<T> | undefined): Promise<T> {
    return new Promise((resolve, reject) => {
      const retry = () => {
        try {
          const taken = this.#buffered.length > 0 ? parse(this.#buffered) : undefined;
          if (taken) {
            this.#waiting = undefined;
            this.#buffered = this.#buffered.subarray(taken.bytes);
            resolve(taken.value);
          } else if (this.#failure) throw this.#failure;
          else if (this.stream.isPaused()) this.stream.resume();
        } catch (error) {
          this.#waiting = undefined;
          reject(error);
        }
      };
      this.#waiting = { retry, fail: reject };
      retry();
    });
  }

  write(bytes: Buffer): void {
    if (this.stream.writable) this.stream.write(bytes);
  }

  /** Ends all waiting, now and later, with this error. */
  fail(error: Error): void {
    this.#failure ??= error;
    this.#gone?.abort(this.#failure);
    const waiting = this.#waiting;
    this.#waiting = undefined;
    waiting?.fail(this.#failure);
  }

  /** Gives up the stream, paused, and what was read of it beyond the last value taken. */
  release(): Buffer {
    const { stream } = this;
    stream.pause();
    stream.off('data', this.#onData).off('end', this.#onEnd).off('close', this.#onEnd).off('error', this.#onError);
    const rest = this.#buffered;
    this.#buffered = EMPTY;
    this.#gone = undefined;
    return rest;
  }

  readonly #onData = (chunk: Buffer): void => {
    this.#buffered = this.#buffered.length === 0 ? chunk : Buffer.concat([this.#buffered, chunk]);
    this.#waiting?.retry();
    if (this.#buffered.length > this.#limit_bytes) this.stream.pause();
  };

  readonly #onEnd = (): void => this.fail(this.#closedError());
  readonly #onError = (error: Error): void => this.fail(this.#closedError(error));
}
