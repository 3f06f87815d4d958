import { execFile } from 'node:child_process';
import { mkdir, readFile, rename, rm } from 'node:fs/promises';
import { userInfo } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { promisify } from 'node:util';
import pg from 'pg';
import type { ComputeDriver, ComputeRef, ComputeSpec } from '../drivers/compute/contract.ts';
import { PLATFORM_ROLE, pgHba, pgIdent } from '../postgres/access.ts';
import { type Distribution, newestDistribution } from '../postgres/distributions.ts';
import { chownTree, initCluster } from '../postgres/initdb.ts';
import type { Log } from '../watch/log-fields.ts';
import { StartError } from './start-error.ts';
import { storeOwner } from './users.ts';

const run = promisify(execFile);
const MAJOR = 17;
const DATABASE = 'coppice';
const START_TIMEOUT_MS = 60_000;
const RESTART_INTERVAL_MS = 1_000;

/** The compute that serves our own database. */
export const STORE_COMPUTE_ID = 'store';

export interface OwnStore {
  readonly connection: pg.ClientConfig;
  stop(): Promise<void>;
}

/**
 * Starts our own Postgres on the data directory, making it at first. It is reached by its socket alone, as the user
 * that Coppice runs as; customers' servers run as others and cannot enter.
 */
export async function startOwnStore(
  driver: ComputeDriver & { socketDirectory(id: string): string },
  distributions: readonly Distribution[],
  dataDirectory: string,
  logger: Log,
): Promise<OwnStore> {
  const data_directory = join(dataDirectory, 'store', 'data');
  const distribution = await ensureCluster(distributions, dataDirectory, data_directory);
  const ref: ComputeRef = { driver: driver.name, id: STORE_COMPUTE_ID };
  const spec = storeSpec(distribution, data_directory);
  await driver.ensureRunning(spec, AbortSignal.timeout(START_TIMEOUT_MS));
  const forget = keepRunning(driver, spec, logger);
  const connection = ownConnection(driver);
  await ensureDatabase(connection);
  const stop = async () => {
    forget();
    await driver.ensureStopped(ref, 'staged');
  };
  return { connection, stop };
}

/** Starts our database again when it ended by itself, until it runs. Returns the way to let it end. */
function keepRunning(driver: ComputeDriver, spec: ComputeSpec, logger: Log): () => void {
  let wanted = true;
  const startAgain = async () => {
    while (wanted) {
      try {
        await driver.ensureRunning(spec, AbortSignal.timeout(START_TIMEOUT_MS));
        return;
      } catch (error) {
        logger.error({ room: 'store', err: error }, 'our own database could not be started again');
        await delay(RESTART_INTERVAL_MS);
      }
    }
  };
  const forget = driver.onExit(({ id }) => {
    if (id !== STORE_COMPUTE_ID || !wanted) return;
    logger.error({ room: 'store' }, 'our own database ended by itself and is started again');
    void startAgain();
  });
  return () => {
    wanted = false;
    forget();
  };
}

/** How this user reaches our own database where it runs. */
export function ownConnection(driver: { socketDirectory(id: string): string }): pg.ClientConfig {
  return { host: driver.socketDirectory(STORE_COMPUTE_ID), user: PLATFORM_ROLE, database: DATABASE };
}

async function ensureCluster(
  distributions: readonly Distribution[],
  dataDirectory: string,
  path: string,
): Promise<Distribution> {
  const written = await readFile(join(path, 'PG_VERSION'), 'utf8').catch(() => undefined);
  const major = written ? Number(written) : MAJOR;
  const distribution = newestDistribution(distributions, major);
  if (!distribution) {
    throw new StartError(
      `no Postgres ${major} is here for Coppice's own database: run npm ci, or install postgresql-${major}`,
    );
  }
  if (written) return distribution;
  const unfinished = `${path}.unfinished`;
  await rm(unfinished, { recursive: true, force: true });
  await mkdir(join(dataDirectory, 'store'), { recursive: true, mode: 0o711 });
  await mkdir(unfinished, { mode: 0o700 });
  await initCluster(distribution, unfinished);
  if (storeOwner) await chownTree(unfinished, storeOwner);
  await run('sync', ['-f', unfinished]);
  await rename(unfinished, path);
  await run('sync', ['-f', path]);
  return distribution;
}

function storeSpec(distribution: Distribution, data_directory: string): ComputeSpec {
  const settings = [
    // The engine's, and those of as many gateways as there may be.
    'max_connections = 160',
    'shared_buffers = 32MB',
    'max_wal_size = 128MB',
    'wal_level = minimal',
    'max_wal_senders = 0',
    'jit = off',
    'max_parallel_workers_per_gather = 0',
    'autovacuum_naptime = 60s',
    'timezone = UTC',
    'log_timezone = UTC',
    // Statements carry verifiers and hashes as parameters, and parameters are not logged either.
    'log_min_error_statement = panic',
    'log_parameter_max_length_on_error = 0',
  ];
  return {
    id: STORE_COMPUTE_ID,
    distribution,
    data_directory,
    owner: storeOwner,
    files: {
      'postgresql.conf': `${settings.join('\n')}\n`,
      'pg_hba.conf': pgHba(),
      'pg_ident.conf': pgIdent(userInfo().username),
    },
    size: 1,
  };
}

async function ensureDatabase(connection: pg.ClientConfig): Promise<void> {
  const client = new pg.Client({ ...connection, database: 'postgres' });
  await client.connect();
  try {
    const { rowCount } = await client.query('select from pg_database where datname = $1', [DATABASE]);
    if (rowCount === 0) await client.query(`create database ${DATABASE}`);
  } finally {
    await client.end();
  }
}
