import { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { TLSSocket } from 'node:tls';
import { getSystemErrorName } from 'node:util';
import type { Pump, PumpEvents, Sink } from './pump.ts';

/**
 * The one module that reaches into Node: a source and a sink over the handle under a socket. A stream costs a new buffer
 * for each read, and a request, a tick and several calls for each write; with small messages that is more than the two
 * system calls. And a stream whose write fails can no longer be read, while a server may have said why it closed. What
 * this uses is looked for first, and where something is missing the streams serve.
 */

interface WriteRequest {
  oncomplete: (status: number) => void;
  /** Keeps the memory of an unfinished write. */
  buffer?: Buffer;
}

interface StreamHandle {
  onread: (() => Buffer | undefined) | undefined;
  useUserBuffer(buffer: Buffer): number;
  readStart(): number;
  readStop(): number;
  writeBuffer(request: WriteRequest, bytes: Buffer): number;
}

interface StreamBinding {
  readonly WriteWrap: new () => WriteRequest;
  /** Results of the last call on any handle. */
  readonly streamBaseState: Int32Array;
  readonly kReadBytesOrError: number;
  readonly kLastWriteWasAsync: number;
}

const binding = findBinding();

function findBinding(): StreamBinding | undefined {
  try {
    const found = (process as unknown as { binding(name: string): StreamBinding }).binding('stream_wrap');
    const complete =
      typeof found.WriteWrap === 'function' &&
      typeof found.streamBaseState?.[found.kReadBytesOrError] === 'number' &&
      typeof found.streamBaseState[found.kLastWriteWasAsync] === 'number';
    return complete ? found : undefined;
  } catch {
    return undefined;
  }
}

const METHODS = ['useUserBuffer', 'readStart', 'readStop', 'writeBuffer'] as const;

function handleOf(stream: Duplex): StreamHandle | undefined {
  if (!(stream instanceof Socket)) return undefined;
  const handle = (stream as unknown as { _handle?: StreamHandle | null })._handle;
  if (!handle || !('onread' in handle)) return undefined;
  return METHODS.every((method) => typeof handle[method] === 'function') ? handle : undefined;
}

/** True when this Node has what is needed here, and the stream is a socket, plain or TLS, that is open. */
export const isRaw = (stream: Duplex): boolean => binding !== undefined && handleOf(stream) !== undefined;

/** Most messages are small, and thousands of sessions idle; whoever fills a buffer gets a large one. */
const SMALL_BYTES = 8 * 1024;
const LARGE_BYTES = 64 * 1024;
/** So many small reads in a row give a large buffer back. */
const SMALL_READS = 64;
/** What is read into it is copied out before anything else is read. */
const SHARED = Buffer.allocUnsafeSlow(SMALL_BYTES);

/**
 * A sink over the handle of a socket for which `isRaw` holds. Its stream must have nothing left to write, and writes
 * nothing any more, but can still be ended and destroyed.
 */
export function rawSink(stream: Duplex): Sink {
  const handle = handleOf(stream)!;
  return stream instanceof TLSSocket ? new TlsSink(handle) : new RawSink(handle);
}

const ignore = (): void => undefined;

class RawSink implements Sink {
  onReady: () => void = ignore;
  onError: (error: Error) => void = ignore;
  readonly #handle: StreamHandle;
  readonly #state = binding!.streamBaseState;
  /** Reused by every write that is done at once, which most are. */
  #request = this.#newRequest();
  #unfinished = 0;

  constructor(handle: StreamHandle) {
    this.#handle = handle;
  }

  end(then: () => void): void {
    then();
  }

  write(bytes: Buffer): boolean {
    const status = this.#handle.writeBuffer(this.#request, bytes);
    if (status !== 0) {
      this.onError(systemError(status, 'write'));
      return false;
    }
    if (!this.#state[binding!.kLastWriteWasAsync]) return true;
    this.#request.buffer = bytes;
    this.#request = this.#newRequest();
    this.#unfinished++;
    return false;
  }

  #newRequest(): WriteRequest {
    const request = new binding!.WriteWrap();
    request.oncomplete = (status) => {
      this.#unfinished--;
      if (status < 0) this.onError(systemError(status, 'write'));
      else if (this.#unfinished === 0) this.onReady();
    };
    return request;
  }
}

/**
 * TLS takes one write at a time, and says only in the next turn of the event loop that it is done, so what comes meanwhile
 * is gathered. Copies what it gets.
 */
class TlsSink implements Sink {
  onReady: () => void = ignore;
  onError: (error: Error) => void = ignore;
  readonly #handle: StreamHandle;
  readonly #state = binding!.streamBaseState;
  #busy = false;
  #gathered: Buffer[] = [];
  #gatheredBytes = 0;
  #full = false;
  #onEmpty: (() => void) | undefined;

  constructor(handle: StreamHandle) {
    this.#handle = handle;
  }

  write(bytes: Buffer): boolean {
    const copy = Buffer.from(bytes);
    if (!this.#busy) return this.#send(copy);
    this.#gathered.push(copy);
    this.#gatheredBytes += copy.length;
    this.#full = this.#gatheredBytes >= LARGE_BYTES;
    return !this.#full;
  }

  end(then: () => void): void {
    if (this.#busy) this.#onEmpty = then;
    else then();
  }

  #send(bytes: Buffer): boolean {
    const request = new binding!.WriteWrap();
    request.buffer = bytes;
    request.oncomplete = this.#onWritten;
    const status = this.#handle.writeBuffer(request, bytes);
    if (status === 0) this.#busy = this.#state[binding!.kLastWriteWasAsync] !== 0;
    else this.onError(systemError(status, 'write'));
    return status === 0;
  }

  readonly #onWritten = (status: number): void => {
    this.#busy = false;
    if (status < 0) {
      this.onError(systemError(status, 'write'));
      return;
    }
    if (this.#gatheredBytes > 0) {
      const bytes = this.#gathered.length === 1 ? this.#gathered[0]! : Buffer.concat(this.#gathered);
      this.#gathered = [];
      this.#gatheredBytes = 0;
      if (!this.#send(bytes)) return;
    }
    if (!this.#busy) {
      this.#onEmpty?.();
      this.#onEmpty = undefined;
    }
    if (this.#full) {
      this.#full = false;
      this.onReady();
    }
  };
}

/**
 * A pump from the handle of a socket for which `isRaw` holds. Its stream, paused, reads nothing any more. It has one
 * buffer, which a full sink keeps while reading rests.
 *
 * @param shares for sources of which there are thousands, most of them idle: while reads are small there is one buffer for
 *   all, and the sink gets copies
 */
export function pumpRaw(source: Duplex, sink: Sink, events: PumpEvents, shares = false): Pump {
  const pump = new RawPump(handleOf(source)!, sink, events, shares);
  // What the stream still holds goes first.
  source.pause();
  let full = false;
  for (let chunk = source.read() as Buffer | null; chunk !== null; chunk = source.read() as Buffer | null) {
    events.count(chunk.length);
    if (!sink.write(chunk)) full = true;
  }
  pump.start(!full);
  return pump;
}

class RawPump implements Pump {
  readonly #handle: StreamHandle;
  readonly #sink: Sink;
  readonly #events: PumpEvents;
  readonly #state = binding!.streamBaseState;
  readonly #shares: boolean;
  #buffer: Buffer;
  /** The part of the buffer that the last read filled; kept, since messages of one length follow each other. */
  #view: Buffer;
  #smallReads = 0;
  #discarding = false;

  constructor(handle: StreamHandle, sink: Sink, events: PumpEvents, shares: boolean) {
    this.#handle = handle;
    this.#shares = shares;
    this.#buffer = this.#newBuffer(SMALL_BYTES);
    this.#view = this.#buffer;
    this.#sink = sink;
    this.#events = events;
    sink.onReady = () => void handle.readStart();
    sink.onError = (error) => events.onSinkError(error);
  }

  start(reading: boolean): void {
    this.#handle.readStop();
    this.#handle.useUserBuffer(this.#buffer);
    this.#handle.onread = this.#onRead;
    if (reading) this.#handle.readStart();
  }

  discard(): void {
    this.#discarding = true;
    this.#handle.readStart();
  }

  /** Returns the buffer for the next read where it changes. */
  readonly #onRead = (): Buffer | undefined => {
    const bytes = this.#state[binding!.kReadBytesOrError]!;
    if (bytes <= 0) {
      if (bytes < 0) this.#onReadFailed(bytes);
      return undefined;
    }
    if (this.#discarding) return undefined;
    this.#events.count(bytes);
    if (this.#view.length !== bytes) this.#view = this.#buffer.subarray(0, bytes);
    const taken = this.#sink.write(this.#buffer === SHARED ? Buffer.from(this.#view) : this.#view);
    if (taken) return this.#fitBuffer(bytes);
    // A broken sink has had the rest discarded by now.
    if (!this.#discarding) this.#handle.readStop();
    return this.#useBuffer(this.#buffer.length);
  };

  #fitBuffer(bytes: number): Buffer | undefined {
    const size = this.#buffer.length;
    if (bytes === size) {
      this.#smallReads = 0;
      return size < LARGE_BYTES ? this.#useBuffer(LARGE_BYTES) : undefined;
    }
    if (size === SMALL_BYTES || bytes > SMALL_BYTES) return undefined;
    this.#smallReads++;
    return this.#smallReads >= SMALL_READS ? this.#useBuffer(SMALL_BYTES) : undefined;
  }

  #useBuffer(size: number): Buffer {
    this.#smallReads = 0;
    this.#buffer = this.#newBuffer(size);
    this.#view = this.#buffer;
    return this.#buffer;
  }

  #newBuffer(size: number): Buffer {
    return this.#shares && size === SMALL_BYTES ? SHARED : Buffer.allocUnsafeSlow(size);
  }

  #onReadFailed(status: number): void {
    const error = systemError(status, 'read');
    if (error.code === 'EOF') this.#events.onEnd();
    else this.#events.onSourceError(error);
  }
}

function systemError(status: number, syscall: string): NodeJS.ErrnoException {
  const code = getSystemErrorName(status);
  return Object.assign(new Error(`${syscall} ${code}`), { code, syscall });
}
