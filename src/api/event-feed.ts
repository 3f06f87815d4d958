import { type EventPosition, isAfter } from '../domain/event-position.ts';
import { LIMITS } from '../domain/limits.ts';
import type { RecordedEvent } from '../domain/shown-event.ts';
import type { ChangeWatch } from '../store/change-watch.ts';
import type { Store } from '../store/connection.ts';
import { type EventScope, readEvents } from '../store/events.ts';

/** One who follows events. */
export interface EventFollower {
  /** What is read from the store for it while it catches up; `maySee` decides. */
  readonly scope: () => EventScope;
  readonly maySee: (event: RecordedEvent) => boolean;
  /**
   * Takes events in order, each once, maybe none, and where they lead up to. It is waited for while it catches up; whoever
   * cannot keep up afterwards has to leave. Never rejects.
   */
  readonly take: (events: readonly RecordedEvent[], position: EventPosition) => Promise<void>;
  /** Aborted when it has left. */
  readonly gone: AbortSignal;
}

export interface EventFeedOptions {
  readonly store: Store;
  readonly changes: ChangeWatch;
  readonly onError: (error: unknown) => void;
}

/** What is announced with every event. @for-tests, which announce it themselves. */
export const EVENTS_CHANGED = 'events';
/** An older transaction holds events back: it will be looked again so soon, and then less and less often. */
const LOOK_AGAIN_MIN_MS = 2;
const LOOK_AGAIN_MAX_MS = 250;
const AFTER_ERROR_MS = 1_000;

/**
 * Passes events on to those who follow them in this process. Whoever comes is first brought up to where the others are; from
 * there one read serves everybody. Nothing is read while nobody follows.
 */
export class EventFeed {
  readonly #options: EventFeedOptions;
  readonly #followers = new Map<EventFollower, EventPosition>();
  /** Everything up to here was passed on. */
  #head: EventPosition | undefined;
  #unwatch: (() => void) | undefined;
  #timer: NodeJS.Timeout | undefined;
  #reading = false;
  #heard = false;
  #wait_ms = LOOK_AGAIN_MIN_MS;

  constructor(options: EventFeedOptions) {
    this.#options = options;
  }

  /** Follows events behind a position until the follower leaves. Resolves when it has caught up with the others. */
  async follow(follower: EventFollower, after: EventPosition): Promise<void> {
    let position = after;
    while (!follower.gone.aborted) {
      const page = await readEvents(this.#options.store, position, {
        limit: LIMITS.events_page_max,
        scope: follower.scope(),
      });
      if (follower.gone.aborted) return;
      position = page.position;
      await follower.take(page.events.filter(follower.maySee), position);
      if (!page.more && this.#join(follower, position)) return;
    }
  }

  /** False where the others are further. */
  #join(follower: EventFollower, position: EventPosition): boolean {
    if (this.#head && isAfter(this.#head, position)) return false;
    if (follower.gone.aborted) return true;
    this.#followers.set(follower, position);
    follower.gone.addEventListener('abort', () => this.#leave(follower), { once: true });
    this.#head ??= position;
    this.#unwatch ??= this.#options.changes.watch([EVENTS_CHANGED], () => void this.#look());
    // Something may have come between the read and this.
    void this.#look();
    return true;
  }

  #leave(follower: EventFollower): void {
    this.#followers.delete(follower);
    if (this.#followers.size > 0) return;
    this.#unwatch?.();
    clearTimeout(this.#timer);
    this.#unwatch = undefined;
    this.#head = undefined;
  }

  async #look(): Promise<void> {
    this.#heard = true;
    if (this.#reading) return;
    this.#reading = true;
    clearTimeout(this.#timer);
    try {
      while (this.#heard && this.#head) {
        this.#heard = false;
        const { more, behind } = await this.#passOn(this.#head);
        this.#heard ||= more;
        if (!more) this.#lookLater(behind);
      }
    } catch (error) {
      this.#options.onError(error);
      this.#again(AFTER_ERROR_MS);
    } finally {
      this.#reading = false;
    }
  }

  async #passOn(from: EventPosition): Promise<{ more: boolean; behind: boolean }> {
    const page = await readEvents(this.#options.store, from, { limit: LIMITS.events_page_max });
    // Everybody may have left meanwhile, and others come who are elsewhere.
    if (this.#head !== from) return { more: this.#head !== undefined, behind: false };
    this.#head = page.position;
    for (const [follower, seen] of this.#followers) {
      const events = page.events.filter((event) => isAfter(event, seen) && follower.maySee(event));
      void follower.take(events, page.position);
    }
    return page;
  }

  #lookLater(behind: boolean): void {
    if (!behind) {
      this.#wait_ms = LOOK_AGAIN_MIN_MS;
      return;
    }
    this.#again(this.#wait_ms);
    this.#wait_ms = Math.min(LOOK_AGAIN_MAX_MS, this.#wait_ms * 2);
  }

  #again(after_ms: number): void {
    clearTimeout(this.#timer);
    if (this.#followers.size === 0) return;
    this.#timer = setTimeout(() => void this.#look(), after_ms);
  }
}
