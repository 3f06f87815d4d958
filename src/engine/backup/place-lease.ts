import type { ObjectStore } from '../../drivers/objects/contract.ts';
import { BackupError } from './backup-error.ts';

const PREFIX = 'leases/';
const RENEW_INTERVAL_MS = 60_000;
/** Whoever did not renew it for so long is dead. */
const AGE_MAX_MS = 600_000;

/**
 * Works in a place of backups while nobody else does, on any machine: an object says so, and is renewed. What the same
 * data directory left when it was killed is taken over; the caller sees to it that it does this once at a time.
 * @throws BackupError when somebody else writes there
 */
export async function withPlaceLease<T>(
  objects: ObjectStore,
  data_directory_id: string,
  work: () => Promise<T>,
): Promise<T> {
  const key = `${PREFIX}${data_directory_id}`;
  const renew = () => objects.put(key, Buffer.from(`${new Date().toISOString()}\n`));
  await renew();
  let renewing: Promise<unknown> = Promise.resolve();
  const timer = setInterval(() => {
    renewing = renew().catch(() => undefined);
  }, RENEW_INTERVAL_MS);
  try {
    await refuseOthers(objects, key);
    return await work();
  } finally {
    clearInterval(timer);
    await renewing;
    await objects.ensureRemoved([key]).catch(() => undefined);
  }
}

/** Written first and looked at then: of two who come at once at least one sees the other. */
async function refuseOthers(objects: ObjectStore, own: string): Promise<void> {
  const leases = [];
  for await (const lease of objects.list(PREFIX)) leases.push(lease);
  // By the store's clock alone.
  const now_ms = leases.find(({ key }) => key === own)?.stored_at.getTime() ?? Date.now();
  const other = leases.find(({ key, stored_at }) => key !== own && stored_at.getTime() > now_ms - AGE_MAX_MS);
  if (!other) return;
  throw new BackupError(
    `another Coppice writes to ${objects.place} now, or was killed there less than ten minutes ago: wait, or choose another place`,
  );
}
