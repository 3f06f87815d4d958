import { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { TLSSocket } from 'node:tls';
import { getSystemErrorName } from 'node:util';
import type { Pump, PumpEvents } from './pump.ts';

/**
 * The one module that reaches into Node: a pump that reads from and writes to the handles under two sockets. A stream
 * costs a new buffer for each read and a request, a tick and several calls for each write; with small messages that is
 * more than the two system calls. What it uses is looked for first, and where something is missing the streams serve.
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
  if (!(stream instanceof Socket) || stream instanceof TLSSocket) return undefined;
  const handle = (stream as unknown as { _handle?: StreamHandle | null })._handle;
  if (!handle || !('onread' in handle)) return undefined;
  return METHODS.every((method) => typeof handle[method] === 'function') ? handle : undefined;
}

/** True when this Node has what `pumpRaw` needs, and the stream is a plain socket that is open. */
export const canPumpRaw = (stream: Duplex): boolean => binding !== undefined && handleOf(stream) !== undefined;

/** Most messages are small, and thousands of sessions idle; whoever fills a buffer gets a large one. */
const SMALL_BYTES = 8 * 1024;
const LARGE_BYTES = 64 * 1024;
/** So many small reads in a row give a large buffer back. */
const SMALL_READS = 64;

/**
 * Pumps between two sockets for which `canPumpRaw` holds. Both stay usable for `end` and `destroy`, and their streams
 * carry nothing any more. Each direction has its own buffer, which an unfinished write keeps while reading rests.
 */
export function pumpRaw(source: Duplex, sink: Duplex, events: PumpEvents): Pump {
  const pump = new RawPump(handleOf(source)!, handleOf(sink)!, events);
  // What the streams still hold goes first, through them.
  source.pause();
  for (let chunk = source.read() as Buffer | null; chunk !== null; chunk = source.read() as Buffer | null) {
    events.count(chunk.length);
    sink.write(chunk);
  }
  if (sink.writableLength === 0) pump.start();
  else sink.write(Buffer.alloc(0), () => pump.start());
  return pump;
}

class RawPump implements Pump {
  readonly #from: StreamHandle;
  readonly #to: StreamHandle;
  readonly #events: PumpEvents;
  readonly #state = binding!.streamBaseState;
  #buffer: Buffer = Buffer.allocUnsafeSlow(SMALL_BYTES);
  /** The part of the buffer that the last read filled; kept, since messages of one length follow each other. */
  #view: Buffer = this.#buffer;
  #request: WriteRequest;
  #smallReads = 0;
  #discarding = false;

  constructor(from: StreamHandle, to: StreamHandle, events: PumpEvents) {
    this.#from = from;
    this.#to = to;
    this.#events = events;
    this.#request = this.#newRequest();
  }

  start(): void {
    this.#from.useUserBuffer(this.#buffer);
    this.#from.onread = this.#onRead;
    this.#from.readStart();
  }

  discard(): void {
    this.#discarding = true;
    this.#from.readStart();
  }

  #newRequest(): WriteRequest {
    const request = new binding!.WriteWrap();
    request.oncomplete = this.#onWritten;
    return request;
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
    const status = this.#to.writeBuffer(this.#request, this.#view);
    if (status !== 0) {
      this.#from.readStop();
      this.#events.onSinkError(systemError(status, 'write'));
      return undefined;
    }
    if (this.#state[binding!.kLastWriteWasAsync]) {
      this.#from.readStop();
      this.#request.buffer = this.#view;
      this.#request = this.#newRequest();
      return this.#useBuffer(this.#buffer.length);
    }
    return this.#fitBuffer(bytes);
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
    this.#buffer = Buffer.allocUnsafeSlow(size);
    this.#view = this.#buffer;
    return this.#buffer;
  }

  readonly #onWritten = (status: number): void => {
    if (status < 0) this.#events.onSinkError(systemError(status, 'write'));
    else this.#from.readStart();
  };

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
