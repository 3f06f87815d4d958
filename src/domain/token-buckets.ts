/** How often something may happen under one name. */
export interface BucketSize {
  /** So often at once, */
  readonly burst: number;
  /** and so often in the long run. */
  readonly per_second: number;
}

/** A bucket of tokens for each name, in bounded memory and without timers. */
export interface TokenBuckets {
  /** How many tokens are left, with fractions: below 1 there is none to take. */
  left(name: string): number;
  /** Whether a token is left. */
  has(name: string): boolean;
  /** Takes a token; false where none is left. */
  take(name: string): boolean;
  /** Names that are kept in mind. */
  readonly size: number;
}

/** @param names_max beyond it the name that was asked for longest ago is forgotten, which fills its bucket */
export function tokenBuckets({ burst, per_second }: BucketSize, names_max: number): TokenBuckets {
  // Least recently used first. A name that is not there has a full bucket.
  const buckets = new Map<string, { tokens: number; filled_at_ms: number }>();

  const tokensOf = (name: string, now_ms: number): number => {
    const bucket = buckets.get(name);
    if (!bucket) return burst;
    return Math.min(burst, bucket.tokens + ((now_ms - bucket.filled_at_ms) / 1000) * per_second);
  };
  return {
    left: (name) => tokensOf(name, performance.now()),
    has: (name) => tokensOf(name, performance.now()) >= 1,
    take: (name) => {
      const now_ms = performance.now();
      const tokens = tokensOf(name, now_ms);
      const taken = tokens >= 1;
      buckets.delete(name);
      buckets.set(name, { tokens: taken ? tokens - 1 : tokens, filled_at_ms: now_ms });
      if (buckets.size > names_max) buckets.delete(buckets.keys().next().value!);
      return taken;
    },
    get size() {
      return buckets.size;
    },
  };
}
