import type { PooledStatement } from './statements.ts';

/**
 * What a server has still to answer: the messages whose answers end an exchange, or are ours to keep. Other answers need
 * no entry, since they come between these.
 */
export type Awaited =
  /** Sync, and Query or FunctionCall: answered by ReadyForQuery. */
  | { readonly kind: 'sync' | 'query'; readonly ours: boolean }
  | {
      readonly kind: 'parse';
      readonly ours: boolean;
      readonly statement?: PooledStatement;
      /** The server will not do it: something before it has failed. */
      readonly onSkipped?: () => void;
    }
  | {
      readonly kind: 'close';
      readonly ours: boolean;
      /** The client sent a Parse, which the server has already; a CloseComplete in its place keeps the order. */
      readonly for_parse: boolean;
      readonly onSkipped?: () => void;
    }
  /** The end of a COPY to the server, which has no answer of its own. */
  | { readonly kind: 'copy_end' };

export const AWAITED = {
  sync: { kind: 'sync', ours: false },
  our_sync: { kind: 'sync', ours: true },
  query: { kind: 'query', ours: false },
  our_query: { kind: 'query', ours: true },
  parse: { kind: 'parse', ours: false },
  our_parse: { kind: 'parse', ours: true },
  close: { kind: 'close', ours: false, for_parse: false },
  our_close: { kind: 'close', ours: true, for_parse: false },
  close_for_parse: { kind: 'close', ours: false, for_parse: true },
  copy_end: { kind: 'copy_end' },
} as const satisfies Record<string, Awaited>;

/** A queue of what is awaited, in the order in which it was sent. */
export class Outstanding {
  #entries: Awaited[] = [];
  #next = 0;

  get empty(): boolean {
    return this.#next === this.#entries.length;
  }

  get head(): Awaited | undefined {
    return this.#entries[this.#next];
  }

  push(entry: Awaited): void {
    this.#entries.push(entry);
  }

  shift(): Awaited | undefined {
    const entry = this.#entries[this.#next];
    if (entry) this.#next++;
    if (this.#next === this.#entries.length) {
      this.#entries.length = 0;
      this.#next = 0;
    } else if (this.#next > 1000) {
      this.#entries = this.#entries.slice(this.#next);
      this.#next = 0;
    }
    return entry;
  }

  /** Takes entries out up to the one that a ReadyForQuery answers; undefined when none does. */
  shiftToReady(): Awaited | undefined {
    for (let entry = this.shift(); entry; entry = this.shift()) {
      if (entry.kind === 'sync' || entry.kind === 'query') return entry;
    }
    return undefined;
  }

  /** Whether something of a kind is awaited. */
  has(kind: Awaited['kind']): boolean {
    for (let index = this.#next; index < this.#entries.length; index++) {
      if (this.#entries[index]!.kind === kind) return true;
    }
    return false;
  }

  /** Takes the first end of a COPY out. False when there is none. */
  removeCopyEnd(): boolean {
    const index = this.#entries.indexOf(AWAITED.copy_end, this.#next);
    if (index < 0) return false;
    this.#entries.splice(index, 1);
    return true;
  }

  /** Forgets ends of COPYs that had failed before, where nothing else is awaited. */
  dropStrayCopyEnds(): void {
    for (let index = this.#next; index < this.#entries.length; index++) {
      if (this.#entries[index]!.kind !== 'copy_end') return;
    }
    this.#entries.length = 0;
    this.#next = 0;
  }

  /** After an error in the extended protocol the server reads on to the next Sync. False when that was not sent yet. */
  skipToSync(): boolean {
    for (let entry = this.head; entry; entry = this.head) {
      if (entry.kind === 'sync') return true;
      this.shift();
      if (entry.kind === 'parse' || entry.kind === 'close') entry.onSkipped?.();
    }
    return false;
  }

  /** A server in the middle of a COPY ignores every Sync up to its end. False when that end was not sent yet. */
  ignoreSyncsUpToCopyEnd(): boolean {
    for (let entry = this.head; entry; entry = this.head) {
      if (entry.kind === 'copy_end') {
        this.shift();
        return true;
      }
      if (entry.kind !== 'sync') return false;
      this.shift();
    }
    return false;
  }
}
