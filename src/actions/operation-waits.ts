import { CoppiceError } from '../domain/errors.ts';
import type { OperationId } from '../domain/ids.ts';
import { LIMITS } from '../domain/limits.ts';
import { UNFINISHED_STATUSES } from '../domain/operation-kinds.ts';
import type { ChangeWatch } from '../store/change-watch.ts';
import type { Store } from '../store/connection.ts';
import { findOperation } from '../store/operations.ts';
import type { OperationRow } from '../store/schema.ts';

export interface WaitOptions {
  readonly timeout_ms: number;
  /** Aborted when nobody waits any more. */
  readonly gone: AbortSignal;
}

const UNFINISHED: ReadonlySet<string> = new Set(UNFINISHED_STATUSES);

/** `failed` counts as ended: it waits for a person or a later event, not for time to pass. */
export const hasEnded = ({ status }: Pick<OperationRow, 'status'>): boolean => !UNFINISHED.has(status);

/** Requests that wait for operations to end. They look when a change is announced, and end when the server stops. */
export class OperationWaits {
  readonly #store: Store;
  readonly #changes: ChangeWatch;
  readonly #max: number;
  readonly #ends = new Set<() => void>();
  #closed = false;

  constructor(store: Store, changes: ChangeWatch, max: number = LIMITS.waiting_requests) {
    this.#store = store;
    this.#changes = changes;
    this.#max = max;
  }

  /** As many wait as may. */
  get full(): boolean {
    return this.#ends.size >= this.#max;
  }

  /**
   * The operations as they are when all of them have ended, the time is over, nobody waits any more, or the server stops.
   * Throws `waits_exceeded`.
   */
  async untilEnded(ids: readonly OperationId[], { timeout_ms, gone }: WaitOptions): Promise<OperationRow[]> {
    if (this.full) throw new CoppiceError('waits_exceeded', { limit: this.#max });
    let turn = Promise.withResolvers<void>();
    let over = this.#closed || gone.aborted;
    const end = () => {
      over = true;
      turn.resolve();
    };
    this.#ends.add(end);
    gone.addEventListener('abort', end, { once: true });
    const timer = setTimeout(end, timeout_ms);
    // From before the first look, so that nothing is missed between a look and the wait after it.
    const forget = this.#changes.watch(ids, () => turn.resolve());
    try {
      for (;;) {
        const found = await Promise.all(ids.map((id) => findOperation(this.#store, id)));
        const rows = found.filter((row) => row !== undefined);
        if (over || rows.every(hasEnded)) return rows;
        await turn.promise;
        turn = Promise.withResolvers();
        if (over) turn.resolve();
      }
    } finally {
      forget();
      clearTimeout(timer);
      gone.removeEventListener('abort', end);
      this.#ends.delete(end);
    }
  }

  /** Everybody is answered with what is known now. */
  close(): void {
    this.#closed = true;
    for (const end of this.#ends) end();
  }
}
