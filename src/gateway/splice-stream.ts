import type { Duplex } from 'node:stream';
import type { Pump, PumpEvents, Sink } from './pump.ts';

/**
 * A sink over the public stream API. A failed write destroys the stream, which its own reader hears of, so there is no
 * error here.
 * @param copies for a source that reuses its memory
 */
export function streamSink(stream: Duplex, { copies }: { copies: boolean }): Sink {
  const sink: Sink = {
    write: (bytes) => !stream.writable || stream.write(copies ? Buffer.from(bytes) : bytes),
    end: (then) => then(),
    onReady: () => undefined,
    onError: () => undefined,
  };
  stream.on('drain', () => sink.onReady());
  return sink;
}

/**
 * A pump over the public stream API.
 * @param filter changes what is passed on; what it throws counts as an error of the source
 */
export function pumpStream(
  source: Duplex,
  sink: Sink,
  filter: ((chunk: Buffer) => Buffer) | undefined,
  events: PumpEvents,
): Pump {
  let discarding = false;
  sink.onReady = () => source.resume();
  sink.onError = (error) => events.onSinkError(error);
  source.on('data', (chunk: Buffer) => {
    if (discarding) return;
    events.count(chunk.length);
    let passed = chunk;
    try {
      if (filter) passed = filter(chunk);
    } catch (error) {
      discarding = true;
      events.onSourceError(error as Error);
      return;
    }
    if (passed.length > 0 && !sink.write(passed)) source.pause();
  });
  source.on('end', () => events.onEnd());
  source.on('error', (error) => events.onSourceError(error));
  if (source.readableEnded) queueMicrotask(() => events.onEnd());
  else source.resume();
  return {
    discard() {
      discarding = true;
      source.resume();
    },
  };
}
