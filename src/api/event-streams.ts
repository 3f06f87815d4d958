import { PassThrough, type Readable } from 'node:stream';
import { CoppiceError } from '../domain/errors.ts';
import { type EventPosition, formatEventId } from '../domain/event-position.ts';
import { LIMITS } from '../domain/limits.ts';
import { type RecordedEvent, showEvent } from '../domain/shown-event.ts';
import type { EventScope } from '../store/events.ts';
import type { EventFeed } from './event-feed.ts';

/** What one caller may see. */
export interface EventView {
  readonly scope: EventScope;
  readonly maySee: (event: RecordedEvent) => boolean;
}

export interface EventStreamRequest {
  readonly epoch: string;
  readonly after: EventPosition;
  /** `ready`: nothing was missed. `reset`: something may have been, since what the caller saw last is not known any more. */
  readonly begin: 'ready' | 'reset';
  /** What the caller came with (`credentialName`). */
  readonly credential: string;
  readonly view: EventView;
  /** What the caller may see by now; rejects when that is nothing any more. */
  readonly look_up: () => Promise<EventView>;
}

/** Clients come back after so long. */
const RETRY_MS = 2_000;
/** Room for what is on its way to a client that keeps up. */
const BUFFERED_BYTES = 64 * 1024;

/** The answers that never end: server-sent events (WHATWG HTML). */
export class EventStreams {
  readonly #feed: EventFeed;
  readonly #onError: (error: unknown) => void;
  readonly #heartbeat_ms: number;
  readonly #open = new Map<() => void, string>();
  #closed = false;

  constructor(feed: EventFeed, onError: (error: unknown) => void, heartbeat_ms: number = LIMITS.event_heartbeat_ms) {
    this.#feed = feed;
    this.#heartbeat_ms = heartbeat_ms;
    this.#onError = onError;
  }

  /**
   * The events behind a position, for as long as the reader stays, keeps up and may see them. Throws
   * `event_streams_exceeded`.
   */
  open({ epoch, after, begin, credential, view, look_up }: EventStreamRequest): Readable {
    if (this.#closed) throw new CoppiceError('unavailable');
    this.#refuseTooMany(credential);
    const body = new PassThrough({ highWaterMark: BUFFERED_BYTES });
    const gone = new AbortController();
    let seen = after;
    let allowed = view;
    let draining: Promise<void> | undefined;
    const id = () => `id: ${formatEventId(epoch, seen)}\n`;
    const leave = () => {
      if (gone.signal.aborted) return;
      clearInterval(heartbeat);
      this.#open.delete(end);
      gone.abort();
    };
    const end = () => {
      leave();
      body.end();
    };
    const beat = () => {
      look_up().then((now) => {
        allowed = now;
        // With the place in the log, which may be far from the last event that was for this reader.
        if (!gone.signal.aborted) body.write(`: heartbeat\n${id()}\n`);
      }, end);
    };
    const heartbeat = setInterval(beat, this.#heartbeat_ms).unref();
    this.#open.set(end, credential);
    body.once('close', leave);
    body.write(`retry: ${RETRY_MS}\nevent: ${begin}\n${id()}data: {}\n\n`);
    const follower = {
      gone: gone.signal,
      scope: () => allowed.scope,
      maySee: (event: RecordedEvent) => {
        if (event.type === 'api_key.revoked' && credential === `key:${event.subject_id}`) end();
        return allowed.maySee(event);
      },
      take: async (events: readonly RecordedEvent[], position: EventPosition) => {
        if (body.writableLength > LIMITS.event_stream_bytes) body.destroy();
        if (gone.signal.aborted || body.destroyed) return;
        for (const event of events) body.write(frame(epoch, event));
        seen = position;
        if (!body.writableNeedDrain) return;
        draining ??= untilDrained(body, gone.signal).finally(() => {
          draining = undefined;
        });
        await draining;
      },
    };
    this.#feed.follow(follower, after).catch((error) => {
      this.#onError(error);
      end();
    });
    return body;
  }

  /** Ends every stream: clients come back with what they saw last, to whoever serves them then. */
  close(): void {
    this.#closed = true;
    for (const end of this.#open.keys()) end();
  }

  #refuseTooMany(credential: string): void {
    const mine = [...this.#open.values()].filter((other) => other === credential).length;
    if (this.#open.size < LIMITS.event_streams && mine < LIMITS.event_streams_per_key) return;
    throw new CoppiceError('event_streams_exceeded', { limit: LIMITS.event_streams_per_key });
  }
}

/** A reader that takes nothing for too long is cut off, as is one that lets too much pile up. */
function untilDrained(body: PassThrough, gone: AbortSignal): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  const timer = setTimeout(() => body.destroy(), LIMITS.event_stall_ms).unref();
  const go = () => resolve();
  body.once('drain', go);
  gone.addEventListener('abort', go, { once: true });
  return promise.finally(() => {
    clearTimeout(timer);
    // A stream lasts for days, and a reader that is often slow must leave nothing behind each time.
    body.off('drain', go);
    gone.removeEventListener('abort', go);
  });
}

const frame = (epoch: string, event: RecordedEvent): string =>
  `event: ${event.type}\nid: ${formatEventId(epoch, event)}\ndata: ${JSON.stringify(showEvent(epoch, event))}\n\n`;
