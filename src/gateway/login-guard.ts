import { customerNetwork } from '../domain/customer-network.ts';
import { type BucketSize, type TokenBuckets, tokenBuckets } from '../domain/token-buckets.ts';
import { addressOf } from './peer.ts';
import { Refusal, refusals } from './refusal.ts';

/** What the guard lets happen, in the words of the product's limits. */
export type GuardLimits = {
  readonly [Name in
    | `${'connections' | 'failed_logins'}_per_${'address' | 'endpoint'}_${'burst' | 'per_second'}`
    | `failed_logins_per_pair_${'burst' | 'per_second'}`
    | 'guarded_names']: number;
};

/** The part of a context that hashes passwords. */
interface Hashing {
  readonly hashing: <T>(work: () => Promise<T>) => Promise<T>;
}

const NAME_CHARACTERS = 64;

/**
 * Keeps one address, or the guesses at one endpoint, from taking what is there for all. What it refuses costs no look-up,
 * no hash and no wake. Addresses of IPv6 count by their network of 64 bits, which is what one customer has.
 */
export class LoginGuard {
  readonly #connectionsOfAddress: TokenBuckets;
  readonly #connectionsToEndpoint: TokenBuckets;
  readonly #failuresOfAddress: TokenBuckets;
  readonly #failuresAtEndpoint: TokenBuckets;
  /** Of an address at an endpoint. */
  readonly #failuresOfPair: TokenBuckets;
  /** Pairs that have logged in: guesses from elsewhere do not lock them out. Least recently used first. */
  readonly #welcome = new Set<string>();
  readonly #names_max: number;

  constructor(limits: GuardLimits) {
    this.#names_max = limits.guarded_names;
    const buckets = (of: 'connections' | 'failed_logins', by: 'address' | 'endpoint') => {
      const size = { burst: limits[`${of}_per_${by}_burst`], per_second: limits[`${of}_per_${by}_per_second`] };
      return tokenBuckets(size, limits.guarded_names);
    };
    this.#connectionsOfAddress = buckets('connections', 'address');
    this.#connectionsToEndpoint = buckets('connections', 'endpoint');
    this.#failuresOfAddress = buckets('failed_logins', 'address');
    this.#failuresAtEndpoint = buckets('failed_logins', 'endpoint');
    const pair: BucketSize = {
      burst: limits.failed_logins_per_pair_burst,
      per_second: limits.failed_logins_per_pair_per_second,
    };
    this.#failuresOfPair = tokenBuckets(pair, limits.guarded_names);
  }

  /** Counts a connection that has said what it is for. Throws a Refusal when its address opens too many. */
  connect(peer: string | undefined): void {
    if (!this.#connectionsOfAddress.take(networkOf(peer))) throw refusals.tooManyFromAddress();
  }

  /** Counts a connection that has been let in. Throws a Refusal when its endpoint gets too many. */
  enter(target: string): void {
    if (!this.#connectionsToEndpoint.take(target)) throw refusals.tooManySessions();
  }

  /**
   * Lets a client try to prove who it is. Throws a Refusal instead when there were too many guesses from its address or at
   * the endpoint: wrong passwords, and tokens where none are taken. Also in the middle, for those that wait for their turn
   * to be hashed.
   *
   * @param target the endpoint or branch; undefined when only the password tells
   */
  async attempt<C extends Hashing, T>(
    peer: string | undefined,
    target: string | undefined,
    context: C,
    work: (context: C) => Promise<T>,
  ): Promise<T> {
    const address = networkOf(peer);
    // Anybody can make up names, of any length.
    const name = target?.slice(0, NAME_CHARACTERS);
    const pair = `${address} ${name ?? ''}`;
    const check = () => this.#check(address, name, pair);
    check();
    let counted = false;
    const fail = () => {
      if (counted) return;
      counted = true;
      this.#failuresOfAddress.take(address);
      this.#failuresOfPair.take(pair);
      if (name !== undefined) this.#failuresAtEndpoint.take(name);
    };
    const hashing: Hashing['hashing'] = (hash) =>
      context.hashing(async () => {
        check();
        const found = await hash();
        // Now, for those that wait; the attempt itself may go on to ask for a newer password.
        if (found === undefined) fail();
        return found;
      });
    try {
      const outcome = await work({ ...context, hashing });
      this.#welcomePair(pair);
      return outcome;
    } catch (error) {
      if (error instanceof Refusal && error.guess) fail();
      throw error;
    }
  }

  #check(address: string, target: string | undefined, pair: string): void {
    const crowded = target !== undefined && !this.#failuresAtEndpoint.has(target) && !this.#welcome.has(pair);
    if (crowded || !this.#failuresOfAddress.has(address) || !this.#failuresOfPair.has(pair)) {
      throw refusals.tooManyFailedLogins();
    }
  }

  #welcomePair(pair: string): void {
    this.#welcome.delete(pair);
    this.#welcome.add(pair);
    if (this.#welcome.size > this.#names_max) this.#welcome.delete(this.#welcome.values().next().value!);
  }
}

/** Attempts from all addresses that one customer may have count together. */
function networkOf(peer: string | undefined): string {
  const address = addressOf(peer);
  return address === undefined ? 'unknown' : customerNetwork(address);
}
