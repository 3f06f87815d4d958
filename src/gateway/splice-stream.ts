import type { Duplex } from 'node:stream';
import type { Pump, PumpEvents } from './pump.ts';

/**
 * A pump over the public stream API, for any two streams. A failed write destroys the sink, which its own reader hears
 * of, so there is no sink error here.
 * @param filter changes what is passed on; what it throws counts as an error of the source
 */
export function pumpStream(
  source: Duplex,
  sink: Duplex,
  filter: ((chunk: Buffer) => Buffer) | undefined,
  events: Pick<PumpEvents, 'count' | 'onEnd' | 'onSourceError'>,
): Pump {
  let discarding = false;
  source.on('data', (chunk: Buffer) => {
    if (discarding) return;
    events.count(chunk.length);
    let passed = chunk;
    try {
      if (filter) passed = filter(chunk);
    } catch (error) {
      discarding = true;
      return events.onSourceError(error as Error);
    }
    if (passed.length > 0 && sink.writable && !sink.write(passed)) source.pause();
  });
  const resume = () => source.resume();
  sink.on('drain', resume);
  source.on('end', events.onEnd);
  source.on('error', events.onSourceError);
  if (source.readableEnded) queueMicrotask(events.onEnd);
  else resume();
  return {
    discard() {
      discarding = true;
      resume();
    },
  };
}
