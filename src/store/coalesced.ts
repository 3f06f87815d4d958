import type { Store } from './connection.ts';

/** Statements of one kind that are under way at once; while they are, the next ones gather keys. */
const STATEMENTS_MAX = 2;
/** While we read the answer to one statement, the server works on the next; with more keys each costs less to send and parse. */
const KEYS_PER_STATEMENT_MAX = 25;

/** Finds many at once; keys without a row are absent from the map. */
export type LoadMany<K, V> = (store: Store, keys: K[]) => Promise<Map<K, V>>;

/**
 * Makes a find-by-key of a find-many. Callers that ask in the same turn of the event loop share a statement, and the
 * value: treat it as read-only. A caller only ever joins a statement that was not sent yet, so it sees everything that
 * was committed before it asked. Within a transaction every key has a statement of its own.
 */
export function coalesced<K, V>(load: LoadMany<K, V>): (store: Store, key: K) => Promise<V | undefined> {
  const gathers = new WeakMap<Store, Gather<K, V>>();
  return async (store, key) => {
    if (store.isTransaction) return (await load(store, [key])).get(key);
    let gather = gathers.get(store);
    if (!gather) {
      gather = new Gather((keys) => load(store, keys));
      gathers.set(store, gather);
    }
    return gather.ask(key);
  };
}

class Gather<K, V> {
  readonly #load: (keys: K[]) => Promise<Map<K, V>>;
  /** Not sent yet. Bounded by what callers have in flight. */
  readonly #waiting = new Map<K, PromiseWithResolvers<V | undefined>>();
  #scheduled = false;
  #under_way = 0;

  constructor(load: (keys: K[]) => Promise<Map<K, V>>) {
    this.#load = load;
  }

  ask(key: K): Promise<V | undefined> {
    const joined = this.#waiting.get(key);
    if (joined) return joined.promise;
    const waiter = Promise.withResolvers<V | undefined>();
    this.#waiting.set(key, waiter);
    this.#schedule();
    return waiter.promise;
  }

  #schedule(): void {
    if (this.#scheduled || this.#under_way >= STATEMENTS_MAX || this.#waiting.size === 0) return;
    this.#scheduled = true;
    setImmediate(() => {
      this.#scheduled = false;
      void this.#send();
    });
  }

  async #send(): Promise<void> {
    const sent = [...this.#waiting].slice(0, KEYS_PER_STATEMENT_MAX);
    for (const [key] of sent) this.#waiting.delete(key);
    this.#under_way += 1;
    this.#schedule();
    try {
      const found = await this.#load(sent.map(([key]) => key));
      for (const [key, waiter] of sent) waiter.resolve(found.get(key));
    } catch (error) {
      for (const [, waiter] of sent) waiter.reject(error);
    } finally {
      this.#under_way -= 1;
      this.#schedule();
    }
  }
}
