import { pbkdf2Sync } from 'node:crypto';
import type { ScramVerifier } from '../domain/scram-verifier.ts';
import { keysFromPassword, keysFromSalted, type PasswordFit } from '../wire/cleartext-password.ts';
import { passwordForms } from '../wire/saslprep.ts';
import { KEY_BYTES, type ScramKeys, xor } from '../wire/scram.ts';

/**
 * The first rounds of a password's derivation are computed for every guess. What the others come to is remembered: by
 * itself it says nothing of the password, since to compare a guess with it takes all rounds.
 */
const FIRST_ROUNDS = 16;

interface Entry {
  /** The exclusive or of all rounds behind the first ones. */
  readonly later_rounds: Buffer;
  /** What the password gives. Always the same object, so that what was found for it once is found again by it. */
  readonly keys: ScramKeys;
  readonly expires_at_ms: number;
}

/**
 * Passwords that were found right a moment ago are found right again at little cost. A wrong one costs what it costs
 * without this.
 */
export class VerifiedPasswords {
  readonly #entries = new Map<string, Entry>();
  readonly #capacity: number;
  readonly #lifetime_ms: number;
  #sweep: NodeJS.Timeout | undefined;

  constructor({ capacity, lifetime_ms }: { readonly capacity: number; readonly lifetime_ms: number }) {
    this.#capacity = capacity;
    this.#lifetime_ms = lifetime_ms;
  }

  /** The keys that a remembered password gives under a verifier; undefined when it is another one, or none is remembered. */
  recall(password: string, verifier: ScramVerifier): ScramKeys | undefined {
    const entry = this.#entries.get(nameOf(verifier));
    if (!entry || entry.expires_at_ms <= performance.now()) return undefined;
    for (const form of passwordForms(password)) {
      const first = pbkdf2Sync(form, verifier.salt, FIRST_ROUNDS, KEY_BYTES, 'sha256');
      if (keysFromSalted(xor(first, entry.later_rounds), verifier)) return entry.keys;
    }
    return undefined;
  }

  /** The keys of a password, computed in Node's thread pool, and remembered when it fits. Undefined when it does not. */
  verify(password: string, verifier: ScramVerifier): Promise<ScramKeys | undefined> {
    return keysFromPassword(password, verifier, (fit) => this.#remember(fit, verifier));
  }

  #remember({ form, salted, keys }: PasswordFit, verifier: ScramVerifier): void {
    if (verifier.iterations <= FIRST_ROUNDS) return;
    const first = pbkdf2Sync(form, verifier.salt, FIRST_ROUNDS, KEY_BYTES, 'sha256');
    const name = nameOf(verifier);
    this.#entries.delete(name);
    if (this.#entries.size >= this.#capacity) this.#entries.delete(this.#entries.keys().next().value!);
    this.#entries.set(name, {
      later_rounds: xor(first, salted),
      keys,
      expires_at_ms: performance.now() + this.#lifetime_ms,
    });
    this.#sweep ??= setTimeout(() => this.#forgetExpired(), this.#lifetime_ms).unref();
  }

  /** Entries lie in the order in which they expire. */
  #forgetExpired(): void {
    this.#sweep = undefined;
    for (const [name, { expires_at_ms }] of this.#entries) {
      const left_ms = expires_at_ms - performance.now();
      if (left_ms > 0) {
        this.#sweep = setTimeout(() => this.#forgetExpired(), left_ms).unref();
        return;
      }
      this.#entries.delete(name);
    }
  }
}

/** A new password, or the same one set again, has another salt. */
const nameOf = ({ iterations, salt, storedKey }: ScramVerifier): string =>
  `${iterations}:${salt.toString('base64')}:${storedKey.toString('base64')}`;
