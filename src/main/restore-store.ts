import type pg from 'pg';
import type { Settings } from '../domain/settings.ts';
import type { ObjectStore } from '../drivers/objects/contract.ts';
import { dumpKey, type Manifest } from '../engine/backup/manifest.ts';
import { getSealed } from '../engine/objects/sealed.ts';
import { stopPoint } from '../engine/stop-point.ts';
import type { Distribution } from '../postgres/distributions.ts';
import { clearForRestore, forgetRestore, StoreInUse } from '../store/clear-for-restore.ts';
import { openStore } from '../store/connection.ts';
import { loadDump, settleRestored } from '../store/dump.ts';
import { migrate } from '../store/migrate.ts';
import type { Log } from '../watch/log-fields.ts';
import type { DataDirectory } from './data-directory.ts';
import { startOwnStore } from './own-store.ts';
import { computeDriverOf } from './parts.ts';
import { StartError } from './start-error.ts';

interface StoreToRestore {
  readonly settings: Settings;
  readonly directory: DataDirectory;
  readonly distributions: readonly Distribution[];
  readonly objects: ObjectStore;
  readonly manifest: Manifest;
  readonly logger: Log;
  /** Of the storage that volumes were restored to. */
  readonly driver: string;
}

/**
 * Our own database is what it was when the backup was made, brought to this version and to what is true on this machine.
 * May be run again, whatever an earlier attempt did.
 */
export async function restoreStore(work: StoreToRestore): Promise<void> {
  const { settings, directory, distributions, logger } = work;
  if (settings.database_url) return fill(work, { connectionString: settings.database_url });
  const compute = computeDriverOf(directory.path, logger.child({ room: 'compute' }));
  const store = await startOwnStore(compute, distributions, directory.path, logger);
  try {
    await fill(work, store.connection);
  } finally {
    await store.stop();
  }
}

async function fill(work: StoreToRestore, connection: pg.ClientConfig): Promise<void> {
  const { directory, objects, manifest, driver, logger } = work;
  const { store, pool, close } = openStore({
    connection,
    application_name: 'coppice restore',
    connections_max: 4,
    durable: true,
    onError: ({ message }) => logger.warn({ room: 'store', reason: message }, 'a connection to our own database broke'),
  });
  try {
    await clearForRestore(pool, `restore of ${manifest.id} into ${directory.id}`).catch((error) => {
      throw error instanceof StoreInUse ? new StartError(error.message) : error;
    });
    await migrate(pool, { count: manifest.dump.migrations.length });
    await loadDump(store, manifest.dump, (table) => rowsOf(objects, manifest, table));
    stopPoint('restore:loaded');
    await migrate(pool);
    const timelines = manifest.timelines.map(({ id }) => id);
    const snapshots = manifest.timelines.flatMap(({ frozen, volumes }) => (frozen ? [] : volumes));
    await settleRestored(store, { driver, timelines, snapshots });
    await forgetRestore(pool);
  } finally {
    await close();
  }
}

async function* rowsOf(objects: ObjectStore, { id, parts }: Manifest, table: string): AsyncIterable<string[]> {
  for (let part = 0; part < (parts[table] ?? 0); part++) {
    yield JSON.parse((await getSealed(objects, dumpKey(id, table, part))).toString());
  }
}
