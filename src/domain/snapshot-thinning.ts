const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;

/** What thinning has to know of a snapshot. */
export interface AgedSnapshot {
  readonly taken_at: Date;
}

/**
 * The snapshots of one timeline that may go. Kept is the newest one that is as old as the window, since the oldest point
 * that can be asked for is replayed from it, and of those after it all of the last quarter of an hour, one for each five
 * minutes of the last hour, one for each hour of the last day, one for each day before. The newest of all is always
 * kept, unless there is no window at all. Thinning twice is thinning once.
 *
 * @param snapshots in the order of their log positions, which a clock that was set back does not change
 * @param window the end of it, and its length; nothing at all is kept for a length of 0
 */
export function spareSnapshots<S extends AgedSnapshot>(
  snapshots: readonly S[],
  { now, retention_seconds }: { readonly now: Date; readonly retention_seconds: number },
): S[] {
  if (retention_seconds <= 0) return [...snapshots];
  const begin_ms = now.getTime() - retention_seconds * 1000;
  const floor = Math.max(
    0,
    snapshots.findLastIndex(({ taken_at }) => taken_at.getTime() <= begin_ms),
  );
  const filled = new Set<string>();
  return snapshots.filter(({ taken_at }, index) => {
    if (index < floor) return true;
    const bucket = bucketOf(taken_at.getTime(), now.getTime());
    if (bucket === undefined) return false;
    const spare = filled.has(bucket) && index < snapshots.length - 1;
    filled.add(bucket);
    return spare;
  });
}

/** Up to which age one is kept of how long: the youngest first. */
const BUCKETS = [
  { age_ms: 15 * MINUTE_MS, each_ms: undefined },
  { age_ms: HOUR_MS, each_ms: 5 * MINUTE_MS },
  { age_ms: DAY_MS, each_ms: HOUR_MS },
  { age_ms: Infinity, each_ms: DAY_MS },
];

/** Hours and days of the clock, not of age: a bucket holds the same snapshots whenever it is looked at. */
function bucketOf(taken_ms: number, now_ms: number): string | undefined {
  const { each_ms } = BUCKETS.find(({ age_ms }) => now_ms - taken_ms <= age_ms)!;
  return each_ms === undefined ? undefined : `${Math.floor(taken_ms / each_ms)} of ${each_ms} ms`;
}
