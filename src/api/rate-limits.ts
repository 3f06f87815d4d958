import type { FastifyReply } from 'fastify';
import { hashApiKey } from '../domain/credentials.ts';
import { CoppiceError } from '../domain/errors.ts';
import { LIMITS } from '../domain/limits.ts';
import { type TokenBuckets, tokenBuckets } from '../domain/token-buckets.ts';

/** How often one key may call; 0 is as often as it likes. */
export interface RateLimitSettings {
  /** Whatever it calls. */
  readonly per_minute: number;
  /** Routes of one group, which is those that need the same permission. */
  readonly group_per_second: number;
}

interface Policy {
  readonly name: 'key' | 'group';
  readonly quota: number;
  readonly window_seconds: number;
  readonly buckets: TokenBuckets;
}

/** Takes a request of a group into account; throws `rate_limited` when its key has called too often. */
export type RateLimits = (reply: FastifyReply, authorization: string, group: string) => void;

/**
 * Counts requests by key, before anything is asked of the store, and tells callers what is left in the headers of the draft of
 * the IETF (`RateLimit`, `RateLimit-Policy`). Each process counts for itself. Undefined where nothing is limited.
 */
export function createRateLimits({ per_minute, group_per_second }: RateLimitSettings): RateLimits | undefined {
  const policies = [policy('key', per_minute, 60), policy('group', group_per_second, 1)].filter(
    ({ quota }) => quota > 0,
  );
  if (policies.length === 0) return undefined;
  const described = policies.map(({ name, quota, window_seconds }) => `"${name}";q=${quota};w=${window_seconds}`);
  return (reply, authorization, group) => {
    // Not the key itself, which nothing keeps.
    const key = hashApiKey(authorization).toString('base64');
    const nameIn = ({ name }: Policy) => (name === 'key' ? key : `${key} ${group}`);
    const exhausted = policies.filter((one) => !one.buckets.take(nameIn(one)));
    const states = policies.map((one) => {
      const left = one.buckets.left(nameIn(one));
      const full_in_seconds = Math.ceil(((one.quota - left) / one.quota) * one.window_seconds);
      return `"${one.name}";r=${Math.floor(left)};t=${full_in_seconds}`;
    });
    reply.header('ratelimit-policy', described.join(', ')).header('ratelimit', states.join(', '));
    if (exhausted.length === 0) return;
    const waits_seconds = exhausted.map(
      (one) => ((1 - one.buckets.left(nameIn(one))) / one.quota) * one.window_seconds,
    );
    reply.header('retry-after', Math.max(1, Math.ceil(Math.max(...waits_seconds))));
    const { quota, window_seconds } = exhausted[0]!;
    throw new CoppiceError('rate_limited', { quota, window_seconds });
  };
}

const policy = (name: Policy['name'], quota: number, window_seconds: number): Policy => ({
  name,
  quota,
  window_seconds,
  buckets: tokenBuckets({ burst: quota, per_second: quota / window_seconds }, LIMITS.guarded_names),
});
