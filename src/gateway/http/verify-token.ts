import {
  createRemoteJWKSet,
  customFetch,
  decodeProtectedHeader,
  errors,
  type FetchImplementation,
  jwtVerify,
} from 'jose';
import { LIMITS } from '../../domain/limits.ts';
import type { TokenIssuer } from '../contract.ts';
import { Refusal, refusals } from '../refusal.ts';
import { fetchKeys } from './fetch-keys.ts';

/** The product's bounds on key sets, by the same names. */
export type KeySetLimits = {
  readonly [Name in `token_keys_${'timeout' | 'cooldown' | 'age' | 'retry'}_ms`]: number;
};

export interface KeySetOptions {
  /** Keys may be on this machine, without TLS. */
  readonly loopback: boolean;
  readonly limits: KeySetLimits;
}

interface KeySet {
  readonly keys: ReturnType<typeof createRemoteJWKSet>;
  /** On the clock of `performance.now`. */
  readonly fetched_at_ms: () => number;
}

const ALGORITHMS = ['RS256', 'ES256'];

/**
 * Verifies tokens (JWT) by the key sets of their issuers, which are fetched when they are needed, and again for a key that
 * is not in them, but not more often than every 30 seconds, be it for tokens that somebody made up. A set that is in use is
 * renewed meanwhile; where that fails it is used for another while.
 */
export class TokenVerifier {
  readonly #options: KeySetOptions;
  /** By address, the one used last at the end. */
  readonly #keySets = new Map<string, KeySet>();

  constructor(options: KeySetOptions) {
    this.#options = options;
  }

  /**
   * The claims of a token, as JSON, when one of the issuers has signed it, for us, and it is valid now. Throws a Refusal that
   * says what is wrong with the token, or that the keys could not be had. An issuer that does not answer holds up nobody
   * else's tokens.
   */
  async verify(token: string, issuers: readonly TokenIssuer[]): Promise<string> {
    if (issuers.length === 0) throw refusals.tokenOfNobody();
    if (typeof readHeader(token).kid !== 'string') throw refusals.tokenInvalid('it names no key (`kid`)');
    try {
      await Promise.any(issuers.map((issuer) => this.#verifyBy(token, issuer)));
    } catch (error) {
      throw refusalOf(
        (error as AggregateError).errors.reduce((first, next) => (tells(next) > tells(first) ? next : first)),
      );
    }
    // As it was signed: numbers beyond those of JavaScript stay what they are.
    return Buffer.from(token.split('.')[1]!, 'base64url').toString('utf8');
  }

  async #verifyBy(token: string, { jwks_url, audience }: TokenIssuer): Promise<void> {
    const { keys, fetched_at_ms } = this.#keySet(jwks_url);
    await jwtVerify(token, keys, {
      algorithms: ALGORITHMS,
      audience,
      clockTolerance: LIMITS.token_clock_skew_seconds,
      requiredClaims: ['exp'],
    });
    const age_ms = performance.now() - fetched_at_ms();
    if (age_ms > this.#options.limits.token_keys_age_ms) keys.reload().catch(() => undefined);
  }

  #keySet(address: string): KeySet {
    const known = this.#keySets.get(address) ?? remoteKeySet(address, this.#options);
    this.#keySets.delete(address);
    this.#keySets.set(address, known);
    if (this.#keySets.size > LIMITS.token_key_sets) this.#keySets.delete(this.#keySets.keys().next().value!);
    return known;
  }
}

function readHeader(token: string): { kid?: unknown } {
  try {
    return decodeProtectedHeader(token);
  } catch {
    throw refusals.tokenInvalid('it is malformed');
  }
}

const isAboutKeys = (error: unknown): boolean =>
  error instanceof errors.JWKSTimeout || error instanceof errors.JWKSInvalid || !(error instanceof errors.JOSEError);

/** How much an issuer's reason tells: least when the token is not its own, most when it is. */
function tells(error: unknown): number {
  if (error instanceof errors.JWKSNoMatchingKey || error instanceof errors.JWSSignatureVerificationFailed) return 0;
  return isAboutKeys(error) ? 1 : 2;
}

/** What jose says of a token is for its owner; what went wrong with the keys is for the log. */
function refusalOf(error: unknown): Refusal {
  if (error instanceof Refusal) return error;
  if (error instanceof errors.JWKSNoMatchingKey)
    return refusals.tokenInvalid('its key is not among those of the issuer');
  return isAboutKeys(error) ? refusals.keysUnavailable(error) : refusals.tokenInvalid((error as Error).message);
}

function remoteKeySet(address: string, { loopback, limits }: KeySetOptions): KeySet {
  let fetched_at_ms = Number.NEGATIVE_INFINITY;
  const fetchNow = onceInAWhile(fetchKeys(loopback), limits.token_keys_retry_ms);
  const keys = createRemoteJWKSet(new URL(address), {
    timeoutDuration: limits.token_keys_timeout_ms,
    cooldownDuration: limits.token_keys_cooldown_ms,
    cacheMaxAge: Math.max(LIMITS.token_keys_age_max_ms, limits.token_keys_age_ms),
    [customFetch]: async (...what) => {
      const answer = await fetchNow(...what);
      fetched_at_ms = performance.now();
      return answer;
    },
  });
  return { keys, fetched_at_ms: () => fetched_at_ms };
}

/** Does not fetch again right after a failure. */
function onceInAWhile(fetchNow: FetchImplementation, retry_ms: number): FetchImplementation {
  let failed_at_ms = Number.NEGATIVE_INFINITY;
  return async (...what) => {
    if (performance.now() - failed_at_ms < retry_ms) {
      throw refusals.keysUnavailable(new Error('the keys could not be had a moment ago'));
    }
    try {
      return await fetchNow(...what);
    } catch (error) {
      failed_at_ms = performance.now();
      throw refusals.keysUnavailable(error);
    }
  };
}
