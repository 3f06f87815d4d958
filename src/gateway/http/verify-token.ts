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

type KeySet = ReturnType<typeof createRemoteJWKSet>;

const ALGORITHMS = ['RS256', 'ES256'];

/**
 * Verifies tokens (JWT) by the key sets of their issuers, which are fetched when they are needed, and again for a key that
 * is not in them, but not more often than every 30 seconds, be it for tokens that somebody made up.
 */
export class TokenVerifier {
  /** By address, the one used last at the end. */
  readonly #keySets = new Map<string, KeySet>();

  /**
   * Resolves when one of the issuers has signed the token, for us, and it is valid now. Throws a Refusal that says what is
   * wrong with the token, or that the keys could not be had.
   */
  async verify(token: string, issuers: readonly TokenIssuer[]): Promise<void> {
    if (typeof readHeader(token).kid !== 'string') throw refusals.tokenInvalid('it names no key (`kid`)');
    let reason: Refusal = refusals.tokenInvalid('nobody is known whose tokens are taken here');
    for (const { jwks_url, audience } of issuers) {
      try {
        await jwtVerify(token, this.#keySet(jwks_url), {
          algorithms: ALGORITHMS,
          audience,
          clockTolerance: LIMITS.token_clock_skew_seconds,
          requiredClaims: ['exp'],
        });
        return;
      } catch (error) {
        reason = refusalOf(error);
      }
    }
    throw reason;
  }

  #keySet(address: string): KeySet {
    const known = this.#keySets.get(address) ?? remoteKeySet(address);
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

/** What jose says of a token is for its owner; what went wrong with the keys is for the log. */
function refusalOf(error: unknown): Refusal {
  if (error instanceof Refusal) return error;
  if (error instanceof errors.JWKSNoMatchingKey)
    return refusals.tokenInvalid('its key is not among those of the issuer');
  if (error instanceof errors.JWKSTimeout || error instanceof errors.JWKSInvalid)
    return refusals.keysUnavailable(error);
  if (error instanceof errors.JOSEError) return refusals.tokenInvalid(error.message);
  return refusals.keysUnavailable(error);
}

function remoteKeySet(address: string): KeySet {
  return createRemoteJWKSet(new URL(address), {
    timeoutDuration: LIMITS.token_keys_timeout_ms,
    cooldownDuration: LIMITS.token_keys_cooldown_ms,
    cacheMaxAge: LIMITS.token_keys_age_ms,
    [customFetch]: carefulFetch(),
  });
}

/** Fetches a small body, and not again right after a failure. jose asks for no redirects, and for status 200. */
function carefulFetch(): FetchImplementation {
  let failed_at_ms = Number.NEGATIVE_INFINITY;
  return async (address, options) => {
    if (performance.now() - failed_at_ms < LIMITS.token_keys_retry_ms) {
      throw refusals.keysUnavailable(new Error('the keys could not be had a moment ago'));
    }
    try {
      const response = await fetch(address, options);
      const body = await boundedBody(response);
      if (response.status !== 200) throw new Error(`the issuer answered ${response.status}`);
      if (!Array.isArray(JSON.parse(body.toString('utf8'))?.keys))
        throw new Error('the issuer answered with no key set');
      return new Response(body, { status: response.status });
    } catch (error) {
      failed_at_ms = performance.now();
      throw refusals.keysUnavailable(error);
    }
  };
}

async function boundedBody({ body }: Response): Promise<Buffer<ArrayBuffer>> {
  const parts: Uint8Array[] = [];
  let total_bytes = 0;
  for await (const part of body ?? []) {
    total_bytes += part.length;
    if (total_bytes > LIMITS.token_keys_bytes)
      throw new Error(`the key set has more than ${LIMITS.token_keys_bytes} bytes`);
    parts.push(part);
  }
  return Buffer.concat(parts);
}
