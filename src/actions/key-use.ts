import { recordKeyUse } from '../store/api-keys.ts';
import type { Store } from '../store/connection.ts';

const FLUSH_EVERY_MS = 5_000;
/** A key's use is written at most this often. */
const WRITE_KEY_EVERY_MS = 60_000;
/** Keys remembered between flushes; uses beyond are not recorded. */
const KEYS_MAX = 10_000;

/** Records when and from where API keys were used last: behind the requests, at most once a minute for each key. */
export class KeyUse {
  readonly #store: Store;
  readonly #onError: (error: unknown) => void;
  readonly #timer: NodeJS.Timeout;
  /** By key id; `written` keys are only here so that they are not written again too soon. */
  readonly #uses = new Map<number, { at: Date; address: string; written: boolean }>();
  #flushing: Promise<void> = Promise.resolve();

  constructor(store: Store, onError: (error: unknown) => void) {
    this.#store = store;
    this.#onError = onError;
    this.#timer = setInterval(() => void this.flush(), FLUSH_EVERY_MS).unref();
  }

  note(keyId: number, address: string): void {
    if (this.#uses.has(keyId) || this.#uses.size >= KEYS_MAX) return;
    this.#uses.set(keyId, { at: new Date(), address, written: false });
  }

  /** Writes what was noted since the last time. */
  flush(): Promise<void> {
    this.#flushing = this.#flushing.then(async () => {
      const fresh = [...this.#uses].filter(([, use]) => !use.written);
      for (const [, use] of fresh) use.written = true;
      const long_ago = Date.now() - WRITE_KEY_EVERY_MS;
      for (const [id, use] of this.#uses) if (use.written && use.at.getTime() < long_ago) this.#uses.delete(id);
      if (fresh.length === 0) return;
      await recordKeyUse(
        this.#store,
        fresh.map(([id, { at, address }]) => ({ id, at, address })),
      ).catch(this.#onError);
    });
    return this.#flushing;
  }

  async close(): Promise<void> {
    clearInterval(this.#timer);
    await this.flush();
  }
}
