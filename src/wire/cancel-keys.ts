import { randomBytes, randomInt, timingSafeEqual } from 'node:crypto';
import type { BackendKey } from './backend-messages.ts';
import { protocolVersion } from './startup.ts';

/** A key handed to a client; `release` forgets it. */
export interface IssuedKey extends BackendKey {
  release(): void;
}

const SECRET_BYTES = 32;
const SHORT_SECRET_BYTES = 4;
/** The lowest bits of a key's process id tell which of several issuers it comes from. */
const SLOT_BITS = 6;
/** Issuers have the slots below. */
export const CANCEL_SLOTS = 2 ** SLOT_BITS;
/** The protocol has a signed 32-bit integer for it, and 0 stands for none. */
const NUMBER_END = 2 ** (31 - SLOT_BITS);

/** Which of several issuers a key was issued by. */
export const cancelSlot = ({ process_id }: Pick<BackendKey, 'process_id'>): number =>
  ((process_id % CANCEL_SLOTS) + CANCEL_SLOTS) % CANCEL_SLOTS;

/**
 * The keys that clients may cancel with, each random and our own, since the process ids of several servers collide.
 * Bounded: beyond `capacity` the oldest key is forgotten, and its session can no longer be cancelled.
 */
export class CancelKeys<Target> {
  readonly #capacity: number;
  readonly #slot: number;
  readonly #issued = new Map<number, { secret: Buffer; target: Target }>();

  /** @param slot of several issuers whose keys must not be mistaken for another's, below `CANCEL_SLOTS` */
  constructor(capacity: number, slot = 0) {
    this.#capacity = capacity;
    this.#slot = slot;
  }

  /** @param version the protocol version spoken with the client; long secrets came with 3.2 */
  issue(target: Target, version: number): IssuedKey {
    let process_id = this.#newId();
    while (this.#issued.has(process_id)) process_id = this.#newId();
    const secret = randomBytes(version >= protocolVersion(3, 2) ? SECRET_BYTES : SHORT_SECRET_BYTES);
    if (this.#issued.size >= this.#capacity) this.#issued.delete(this.#issued.keys().next().value!);
    const entry = { secret, target };
    this.#issued.set(process_id, entry);
    const release = () => {
      if (this.#issued.get(process_id) === entry) this.#issued.delete(process_id);
    };
    return { process_id, secret, release };
  }

  #newId(): number {
    return randomInt(1, NUMBER_END) * CANCEL_SLOTS + this.#slot;
  }

  /** Whom a key cancels; undefined for a key that was never issued or is forgotten. */
  find({ process_id, secret }: BackendKey): Target | undefined {
    const entry = this.#issued.get(process_id);
    if (entry?.secret.length !== secret.length) return undefined;
    return timingSafeEqual(entry.secret, secret) ? entry.target : undefined;
  }

  get size(): number {
    return this.#issued.size;
  }
}
