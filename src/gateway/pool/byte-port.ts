import type { Duplex } from 'node:stream';
import { closeGently } from '../close-gently.ts';
import type { Pump, Sink } from '../pump.ts';
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

/** Takes a stream over, paused, for as long as it lives. Nothing is read, and nobody hears of its end, before `start`. */
export async function openPort(stream: Duplex, raw: boolean, events: PortEvents): Promise<BytePort> {
  stream.on('error', () => undefined);
  // Handles must not overtake what the stream has still to write.
  if (stream.writableLength > 0 && !stream.destroyed) {
    await new Promise((resolve) => stream.write(Buffer.alloc(0), resolve));
  }
  const direct = raw && isRaw(stream);
  const out = direct ? rawSink(stream) : streamSink(stream, { copies: true });
  let pump: Pump | undefined;
  out.onReady = () => events.onWritable();
  // What the other side said last is still to be read.
  out.onError = () => queueMicrotask(() => pump?.discard());
  const inlet: Sink = {
    write: (bytes) => events.onBytes(bytes),
    end: (then) => then(),
    onReady: () => undefined,
    onError: () => undefined,
  };
  const ended = new AbortController();
  const onEnd = () => {
    events.onEnd();
    ended.abort();
  };
  let closed = false;
  const close = (error?: Error) => {
    if (closed) return;
    closed = true;
    events.onClosed(error);
  };
  return {
    stream,
    write: (bytes) => stream.destroyed || out.write(bytes),
    resume: () => {
      if (!stream.destroyed) inlet.onReady();
    },
    close: async (last, timeout_ms) => {
      pump?.discard();
      if (stream.destroyed) return;
      const late = setTimeout(() => stream.destroy(), timeout_ms);
      try {
        // A TLS handle that is still writing ends the whole process when its stream writes too.
        await new Promise<void>((resolve) => {
          stream.once('close', resolve);
          out.onError = () => resolve();
          out.end(resolve);
        });
        await closeGently(stream, last, timeout_ms, ended.signal);
      } finally {
        clearTimeout(late);
      }
    },
    start: (early) => {
      if (stream.closed || stream.destroyed) return queueMicrotask(() => close());
      stream.once('close', () => close());
      if (early.length > 0) events.onBytes(early);
      // What that did may have ended it.
      if (stream.destroyed) return;
      const heard = { count: () => undefined, onEnd, onSourceError: close, onSinkError: () => undefined };
      pump = direct ? pumpRaw(stream, inlet, heard) : pumpStream(stream, inlet, undefined, heard);
    },
  };
}
