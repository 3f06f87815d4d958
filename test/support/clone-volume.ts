import { setTimeout as delay } from 'node:timers/promises';
import { STORAGE_DRIVERS, type StorageDriverKind } from './storage-target.ts';

/** A program: clones a volume, to be killed meanwhile. Arguments: driver, root, source, id, and `hold` to stay in `prepare`. */
const [kind, root, source, id, hold] = process.argv.slice(2) as [StorageDriverKind, string, string, string, string?];
const driver = await STORAGE_DRIVERS[kind]({ root, reserve_bytes: 0 });
const prepare = async () => {
  process.stdout.write('prepare\n');
  // Ends the process, should nobody kill it.
  if (hold) await delay(60_000);
};
await driver.ensureCloned({ driver: kind, id: source }, id, { prepare });
process.stdout.write('cloned\n');
