import { existsSync } from 'node:fs';
import { userInfo } from 'node:os';
import { join } from 'node:path';
import type pg from 'pg';
import { bootstrap } from '../actions/bootstrap.ts';
import type { ActionContext } from '../actions/context.ts';
import type { Settings } from '../domain/settings.ts';
import type { ObjectStore } from '../drivers/objects/contract.ts';
import type { EngineContext } from '../engine/context.ts';
import { type Engine, startEngine } from '../engine/engine.ts';
import { historyReader } from '../engine/history/reader.ts';
import {
  DEFAULT_MAJOR,
  type Distribution,
  ensureDistributions,
  newestDistribution,
  UnreachableError,
} from '../postgres/distributions.ts';
import { type ChangeListener, listenForChanges } from '../store/changes.ts';
import { type OpenStore, openStore } from '../store/connection.ts';
import { migrate, StoreVersionError } from '../store/migrate.ts';
import type { Log } from '../watch/log-fields.ts';
import type { ChosenStorage } from './choose-storage.ts';
import { type DataDirectory, openDataDirectory, refuseUsedDirectory } from './data-directory.ts';
import { domainResolves } from './domain-names.ts';
import { openVault } from './master-key.ts';
import { objectsOf } from './open-objects.ts';
import { STORE_COMPUTE_ID, startOwnStore } from './own-store.ts';
import { archiveOf, computeDriverOf, type ProcessDriver, shippedArchiveOf, storageOf } from './parts.ts';
import { choosePort } from './ports.ts';
import { StartError } from './start-error.ts';
import { type Front, startFront } from './start-front.ts';
import { stopComputes } from './stop-computes.ts';
import { createTemplates } from './templates.ts';
import { refuseUnfinishedRestore } from './unfinished-restore.ts';
import { projectUidBase } from './users.ts';

/** A running Coppice, as the person who started it is told. */
export interface Coppice {
  readonly data_directory: string;
  /** `http://localhost:7432` */
  readonly api_url: string | undefined;
  /** `localhost:5432` */
  readonly gateway_address: string | undefined;
  readonly storage: ChosenStorage;
  readonly isolated_users: boolean;
  readonly limits_enforced: boolean;
  readonly domain_resolves: boolean;
  /** Stops in reverse order. Computes stay only where the settings say so. */
  stop(): Promise<void>;
}

interface Foundation {
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

/**
 * Starts everything that the settings ask for. What was begun is undone when a later step fails. Throws StartError
 * with a sentence for the person at the terminal.
 *
 * @param progress told what is being done, since the first start takes a while
 */
export async function startCoppice(
  given: Settings,
  { logger, progress }: { logger: Log; progress: (text: string) => void },
): Promise<Coppice> {
  await using undo = new AsyncDisposableStack();
  // Before the ports, which whoever else runs on the directory has taken, too; made only after them.
  await refuseUsedDirectory(given.data_dir);
  const settings: Settings = {
    ...given,
    api_port: await choosePort(given.listen, given.api_port, '--api-port'),
    pg_port: await choosePort(given.listen, given.pg_port, '--pg-port'),
  };
  const directory = await openDataDirectory(given.data_dir);
  undo.defer(() => directory.release());
  await refuseUnfinishedRestore(directory.path);
  const roles = new Set(settings.roles);
  const foundation = await layFoundation(settings, { directory, logger, progress }, undo);
  const { driver: storage, ...chosen } = await storageOf(foundation.directory.path, settings);
  const objects = await objectsOf(settings);
  const log = await logOf(foundation, objects);
  let listener: ChangeListener | undefined;
  const installed = await installationContext(foundation);
  const replication_key = installed.vault.derive('passwords of read replicas');
  const engineContext = engineContextOf(foundation, { storage, ...log, objects, replication_key }, async () =>
    listener?.caughtUp(),
  );
  const context = { ...installed, history: historyReader(engineContext) };
  undo.defer(() => (settings.keep_computes ? Promise.resolve() : stopComputes(engineContext)));

  let engine: Engine | undefined;
  if (roles.has('engine')) {
    progress('taking over what runs');
    const { pool } = foundation.observed;
    engine = await startEngine(engineContext, { pool, data_directory_id: foundation.directory.id });
    undo.defer(() => engine!.stop());
  }
  let ready = false;
  const frontOptions = { settings, logger, directory: directory.path, ready: () => ready };
  const front = await startFront(context, engineContext, frontOptions);
  undo.defer(() => front.stop());
  const listening = await listen(foundation, front, engine);
  undo.defer(() => listening.close());
  listener = listening;
  front.useListener(listening);
  if (roles.has('engine')) {
    const { default_pg_version, distributions } = context.installation;
    progress(`preparing Postgres ${default_pg_version} for new projects`);
    await engineContext.template(distributions.get(default_pg_version)!);
  }
  ready = true;

  const stopping = undo.move();
  return {
    data_directory: foundation.directory.path,
    api_url: front.api_url,
    gateway_address: front.gateway_address,
    storage: { driver: storage, ...chosen },
    isolated_users: foundation.driver.capabilities.isolated_users,
    limits_enforced: foundation.driver.capabilities.limits_enforced,
    domain_resolves: context.installation.domain_resolves,
    stop: () => stopping.disposeAsync(),
  };
}

/** The data directory, Postgres to run, and our own database, migrated. */
async function layFoundation(
  settings: Settings,
  { directory, logger, progress }: { directory: DataDirectory; logger: Log; progress: (text: string) => void },
  undo: AsyncDisposableStack,
): Promise<Foundation> {
  progress('seeing to Postgres in the data directory');
  const distributions = await ensureDistributions(directory.path).catch((error) => {
    throw error instanceof UnreachableError ? new StartError(error.message) : error;
  });
  const driver = computeDriverOf(directory.path, logger.child({ room: 'compute' }));
  let connection: pg.ClientConfig = { connectionString: settings.database_url };
  if (!settings.database_url) {
    progress("starting Coppice's own database");
    const store = await startOwnStore(driver, distributions, directory.path, logger);
    undo.defer(() => store.stop());
    connection = store.connection;
  }
  // Without what the driver hangs on its errors: the whole connection.
  const onError = ({ message }: Error) =>
    logger.warn({ room: 'store', reason: message }, 'a connection to our own database broke');
  const open = (application_name: string, durable: boolean) => {
    const opened = openStore({ connection, application_name, connections_max: 12, durable, onError });
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

async function installationContext({
  settings,
  distributions,
  intent,
}: Foundation): Promise<Omit<ActionContext, 'history'>> {
  const newest = new Map<number, string>();
  for (const { major } of distributions) newest.set(major, newestDistribution(distributions, major)!.id);
  const default_pg_version = newest.has(DEFAULT_MAJOR) ? DEFAULT_MAJOR : Math.max(...newest.keys());
  if (newest.size === 0) throw new StartError('no Postgres is here to run: run npm ci, or install one (postgresql-17)');
  return {
    store: intent.store,
    vault: await openVault(settings.master_key_file),
    installation: {
      region_id: settings.region_id,
      domain: settings.domain,
      pg_port: settings.pg_port,
      domain_resolves: await domainResolves(settings.domain),
      min_suspend_timeout_seconds: settings.min_suspend_timeout_seconds,
      time_travel_timeout_seconds: settings.time_travel_timeout_seconds,
      object_storage: settings.objects !== undefined,
      default_pg_version,
      distributions: newest,
      uid_base: projectUidBase,
    },
  };
}

function engineContextOf(
  foundation: Foundation,
  given: Pick<EngineContext, 'storage' | 'archive' | 'shipping' | 'objects' | 'replication_key'>,
  caughtUp: () => Promise<void>,
): EngineContext {
  const { settings, driver, distributions, intent, observed, logger } = foundation;
  const byId = new Map(distributions.map((distribution) => [distribution.id, distribution]));
  return {
    intent: intent.store,
    store: observed.store,
    compute: driver,
    ...given,
    archive_branches: {
      after_ms: milliseconds(settings.archive_branches_after_seconds),
      min_age_ms: milliseconds(settings.archive_branches_min_age_seconds) ?? 0,
    },
    detach_projects_after_ms: milliseconds(settings.detach_projects_after_seconds || undefined),
    archive_check_interval_ms: settings.archive_check_interval_seconds * 1000,
    snapshots: {
      wal_bytes: settings.snapshot_wal_bytes,
      interval_ms: settings.snapshot_interval_seconds * 1000,
    },
    branch_without_checkpoint: settings.branch_without_checkpoint,
    serve_replay_bytes: settings.serve_replay_bytes,
    distributions: new Map(
      distributions.map(({ id, root, major, share }) => {
        const has_scheduler = existsSync(join(share, 'extension', 'pg_cron.control'));
        return [id, { id, root, major, has_scheduler }];
      }),
    ),
    template: createTemplates(given.storage, byId),
    os_user: userInfo().username,
    own_computes: new Set([STORE_COMPUTE_ID]),
    caughtUp,
    logger: logger.child({ room: 'engine' }),
  };
}

/** Where the log of the branches goes. */
async function logOf(
  { directory, settings }: Foundation,
  objects: ObjectStore | undefined,
): Promise<Pick<EngineContext, 'archive' | 'shipping'>> {
  if (!objects) return { archive: await archiveOf(directory.path), shipping: undefined };
  const archive = await shippedArchiveOf(directory.path, objects);
  const after_ms = settings.archive_ship_seconds * 1000;
  return { archive, shipping: { archive, after_ms, local_ms: milliseconds(settings.archive_local_seconds) } };
}

const milliseconds = (seconds: number | undefined): number | undefined => seconds && seconds * 1000;

function listen({ connection }: Foundation, front: Front, engine: Engine | undefined): Promise<ChangeListener> {
  return listenForChanges(connection, {
    onChange: (change) => {
      front.hear(change);
      engine?.hear(change);
    },
    onGap: () => front.forget(),
  });
}
