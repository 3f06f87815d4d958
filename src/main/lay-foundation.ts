import pg from 'pg';
import { bootstrap } from '../actions/bootstrap.ts';
import type { Settings } from '../domain/settings.ts';
import { type Distribution, ensureDistributions, UnreachableError } from '../postgres/distributions.ts';
import { type OpenStore, openStore } from '../store/connection.ts';
import { migrate, StoreVersionError } from '../store/migrate.ts';
import type { Log } from '../watch/log-fields.ts';
import type { DataDirectory } from './data-directory.ts';
import { ownConnection, startOwnStore } from './own-store.ts';
import { computeDriverOf, type ProcessDriver } from './parts.ts';
import { StartError } from './start-error.ts';

/** What everything else stands on. */
export interface Foundation {
  readonly settings: Settings;
  readonly logger: Log;
  readonly directory: DataDirectory;
  readonly distributions: readonly Distribution[];
  readonly driver: ProcessDriver;
  readonly connection: pg.ClientConfig;
  /** For intent: commits are durable. */
  readonly intent: OpenStore;
  /** For observations. */
  readonly observed: OpenStore;
}

/** Our database has room for many processes, and one that is no engine asks little. */
const CONNECTIONS_MAX = { engine: 12, guest: 4 };

/** Postgres to run, and our own database, migrated: started by the engine, and found by processes that are none. */
export async function layFoundation(
  settings: Settings,
  { directory, logger, progress }: { directory: DataDirectory; logger: Log; progress: (text: string) => void },
  undo: AsyncDisposableStack,
): Promise<Foundation> {
  progress('seeing to Postgres in the data directory');
  const distributions = await ensureDistributions(directory.path).catch((error) => {
    throw error instanceof UnreachableError ? new StartError(error.message) : error;
  });
  const driver = computeDriverOf(directory.path, logger.child({ room: 'compute' }));
  const connection = await reachStore({ settings, driver, distributions, directory, logger, progress }, undo);
  // Without what the driver hangs on its errors: the whole connection.
  const onError = ({ message }: Error) =>
    logger.warn({ room: 'store', reason: message }, 'a connection to our own database broke');
  const connections_max = CONNECTIONS_MAX[settings.roles.includes('engine') ? 'engine' : 'guest'];
  const open = (application_name: string, durable: boolean) => {
    const opened = openStore({ connection, application_name, connections_max, durable, onError });
    undo.defer(() => opened.close());
    return opened;
  };
  const intent = open('coppice', true);
  const observed = open('coppice engine', false);
  progress('bringing the database up to date');
  await migrate(intent.pool).catch((error) => {
    throw error instanceof StoreVersionError ? new StartError(error.message) : error;
  });
  await bootstrap(intent.store, { email: settings.bootstrap_email, api_key: settings.bootstrap_api_key }).catch(
    (error) => {
      throw new StartError(error.message);
    },
  );
  return { settings, logger, directory, distributions, driver, connection, intent, observed };
}

async function reachStore(
  {
    settings,
    driver,
    distributions,
    directory,
    logger,
    progress,
  }: Pick<Foundation, 'settings' | 'driver' | 'distributions' | 'directory' | 'logger'> & {
    readonly progress: (text: string) => void;
  },
  undo: AsyncDisposableStack,
): Promise<pg.ClientConfig> {
  if (settings.database_url) return { connectionString: settings.database_url };
  if (settings.roles.includes('engine')) {
    progress("starting Coppice's own database");
    const store = await startOwnStore(driver, distributions, directory.path, logger);
    undo.defer(() => store.stop());
    return store.connection;
  }
  const connection = ownConnection(driver);
  const client = new pg.Client(connection);
  client.on('error', () => undefined);
  await client.connect().catch(({ code, message }: NodeJS.ErrnoException) => {
    throw new StartError(
      `no engine runs on ${directory.path} (${code ?? message}): start one process with the role engine first, or give COPPICE_DATABASE_URL`,
    );
  });
  await client.end();
  return connection;
}
