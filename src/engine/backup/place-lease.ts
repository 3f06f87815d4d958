import { setTimeout as delay } from 'node:timers/promises';
import type { ObjectStore } from '../../drivers/objects/contract.ts';
import { BackupError } from './backup-error.ts';

const PREFIX = 'leases/';

export interface LeaseTimes {
  readonly renew_interval_ms: number;
  /** Whoever was not heard to renew it for so long gives up, */
  readonly held_ms: number;
  /** before others take it for dead. */
  readonly age_max_ms: number;
}

const TIMES: LeaseTimes = { renew_interval_ms: 60_000, held_ms: 480_000, age_max_ms: 600_000 };

/**
 * Works in a place of backups while nobody else does, on any machine: an object says so, and is renewed. What the same
 * data directory left when it was killed is taken over; the caller sees to it that it does this once at a time.
 *
 * @param work is given the place to write to: once the lease could not be renewed for too long, all calls of that fail
 * @throws BackupError when somebody else writes there, or may do so by now
 */
export async function withPlaceLease<T>(
  objects: ObjectStore,
  data_directory_id: string,
  work: (held: ObjectStore) => Promise<T>,
  times: LeaseTimes = TIMES,
): Promise<T> {
  const key = `${PREFIX}${data_directory_id}`;
  let renewed_at = Date.now();
  let lost: BackupError | undefined;
  const assertHeld = () => {
    // By the clock of this machine, which goes on while it sleeps.
    if (!lost && Date.now() - renewed_at > times.held_ms) {
      lost = new BackupError(
        `${objects.place} could not be written to for so long that another Coppice may write there by now: make the backup again`,
      );
    }
    if (lost) throw lost;
  };
  const over = new AbortController();
  const renew = async () => {
    const asked_at = Date.now();
    await objects.put(key, Buffer.from(`${new Date().toISOString()}\n`), { signal: over.signal });
    assertHeld();
    renewed_at = asked_at;
  };
  const renewOn = async () => {
    while (!over.signal.aborted && !lost) {
      await delay(times.renew_interval_ms, undefined, { signal: over.signal }).catch(() => undefined);
      // There is time to try again.
      if (!over.signal.aborted) await renew().catch(() => undefined);
    }
  };
  await renew();
  const renewing = renewOn();
  try {
    await refuseOthers(objects, key, times);
    return await work(checkedPlace(objects, assertHeld));
  } finally {
    over.abort();
    await renewing;
    await objects.ensureRemoved([key]).catch(() => undefined);
  }
}

/** The place as long as `assertHeld` does not throw. */
function checkedPlace(objects: ObjectStore, assertHeld: () => void): ObjectStore {
  const checked =
    <A extends unknown[], R>(call: (...args: A) => R) =>
    (...args: A): R => {
      assertHeld();
      return call(...args);
    };
  return {
    name: objects.name,
    place: objects.place,
    check: checked(async (call) => objects.check(call)),
    put: checked((key, bytes, call) => objects.put(key, bytes, call)),
    putStream: checked((key, source, call) => objects.putStream(key, source, call)),
    get: checked((key, call) => objects.get(key, call)),
    getStream: checked((key, call) => objects.getStream(key, call)),
    find: checked((key, call) => objects.find(key, call)),
    list: checked((prefix, call) => objects.list(prefix, call)),
    ensureRemoved: checked((keys, call) => objects.ensureRemoved(keys, call)),
  };
}

/** Written first and looked at then: of two who come at once at least one sees the other. */
async function refuseOthers(objects: ObjectStore, own: string, { age_max_ms }: LeaseTimes): Promise<void> {
  const leases = [];
  for await (const lease of objects.list(PREFIX)) leases.push(lease);
  // By the store's clock alone.
  const now_ms = leases.find(({ key }) => key === own)?.stored_at.getTime() ?? Date.now();
  const other = leases.find(({ key, stored_at }) => key !== own && stored_at.getTime() > now_ms - age_max_ms);
  if (!other) return;
  throw new BackupError(
    `another Coppice writes to ${objects.place} now, or was killed there less than ten minutes ago: wait, or choose another place`,
  );
}
