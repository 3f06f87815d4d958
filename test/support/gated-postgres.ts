import assert from 'node:assert/strict';
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import pg from 'pg';
import { type Certificates, localCertificates } from '../../src/gateway/certificates.ts';
import type { Directory, EndpointEntry, PointText, RoleSecret, Waker } from '../../src/gateway/contract.ts';
import { type Gateway, type GatewayOptions, startGateway } from '../../src/gateway/gateway.ts';
import { openNursery } from './postgres.ts';
import { type Postmaster, plantPostmaster } from './postmaster.ts';

const run = promisify(execFile);

export const ENDPOINT = 'ep-test-oak-a1b2c3d4';
/** The branch of that endpoint. */
export const BRANCH = 'br-test-elm-a1b2c3d4';
export const ROLE = 'neondb_owner';
export const PASSWORD = 'npg_of$a$test';

/** What the directory tells the gateway; a test changes it as it likes. */
export interface TestDirectory extends Directory {
  entry: EndpointEntry;
  /** Secrets as they were last read; a role missing here is read once it is asked for with `refresh`. */
  readonly secrets: Map<string, RoleSecret>;
  /** Names in the order of the calls with `refresh`. */
  readonly refreshed: string[];
}

/** Starts the server when asked, and remembers that it was. */
export interface TestWaker extends Waker {
  wakes: number;
  /** Replaces the real start. */
  onWake: (signal: AbortSignal) => Promise<void>;
  /** Whether the branch is said to come back from the archive. */
  archived: boolean;
  /** Who asked to go where, in order. */
  readonly journeys: { readonly point: PointText; readonly role: string }[];
  /** Replaces the making of a copy: whoever travels stays in the present. */
  onTravel: () => Promise<void>;
}

export type EndedConnection = Parameters<NonNullable<GatewayOptions['onSessionEnd']>>[0];

/** A real Postgres behind a real gateway, and clients for it. */
export interface GatedPostgres extends AsyncDisposable {
  readonly postmaster: Postmaster;
  readonly directory: TestDirectory;
  readonly waker: TestWaker;
  readonly gateway: Gateway;
  readonly port: number;
  /** File with the authority that clients may trust. */
  readonly authority_file: string;
  readonly authority_pem: string;
  readonly certificates: Certificates;
  /** Log lines of connections, as plain facts. */
  readonly logged: EndedConnection[];
  readonly ended: EndedConnection[];
  /** A second gateway to the same server. */
  openGateway(options?: Partial<GatewayOptions>): Promise<Gateway>;
  /** Not yet connected; over plaintext from loopback, the endpoint in the options. */
  client(options?: pg.ClientConfig): pg.Client;
  connect(options?: pg.ClientConfig): Promise<pg.Client>;
  /** Runs SQL with libpq's psql; gives standard output, or fails with standard error in the message. */
  psql(conninfo: string, sql: string, environment?: NodeJS.ProcessEnv): Promise<string>;
  /** The same, left running. */
  psqlProcess(conninfo: string, sql: string): ChildProcess;
}

export async function openGatedPostgres(
  options: Partial<GatewayOptions> & { major?: number } = {},
): Promise<GatedPostgres> {
  await using undo = new AsyncDisposableStack();
  const postmaster = await openPostmaster(undo, options.major);
  const directory = createDirectory(postmaster);
  await directory.role(ENDPOINT, ROLE, { refresh: true });
  directory.refreshed.length = 0;
  const waker = createWaker(postmaster);
  const files = await mkdtemp(join(tmpdir(), 'coppice-gateway-'));
  undo.defer(() => rm(files, { recursive: true, force: true }));
  const certificates = await localCertificates({ directory: files, domain: 'localhost' });
  const logged: EndedConnection[] = [];
  const ended: EndedConnection[] = [];
  const log = (fields: object) => void logged.push(fields as EndedConnection);
  const owned = new AsyncDisposableStack();

  const openGateway = async (other: Partial<GatewayOptions> = {}): Promise<Gateway> => {
    const gateway = await startGateway({
      listen: [{ host: '127.0.0.1', port: 0 }],
      domain: 'localhost',
      require_tls: false,
      certificates,
      directory,
      waker,
      logger: { info: log, warn: log, error: log },
      onSessionEnd: (record) => void ended.push(record),
      mock_secret: Buffer.alloc(32, 5),
      ...options,
      ...other,
    });
    owned.defer(() => gateway.stop());
    return gateway;
  };
  const gateway = await openGateway();
  const port = gateway.addresses[0]!.port;
  const below = undo.move();
  return {
    ...{ postmaster, directory, waker, gateway, port, logged, ended, openGateway },
    ...clients(port, files),
    authority_file: join(files, 'ca.crt'),
    authority_pem: await readFile(join(files, 'ca.crt'), 'utf8'),
    certificates,
    [Symbol.asyncDispose]: async () => {
      await owned.disposeAsync();
      await below.disposeAsync();
    },
  };
}

/** A running server whose customer has a password. */
async function openPostmaster(undo: AsyncDisposableStack, major: number | undefined): Promise<Postmaster> {
  const nursery = undo.use(await openNursery());
  const postmaster = await plantPostmaster(nursery, { major });
  undo.defer(() => postmaster.stop('SIGQUIT'));
  await postmaster.start();
  await postmaster.query(`ALTER ROLE ${ROLE} PASSWORD '${PASSWORD}'`);
  return postmaster;
}

function clients(port: number, home: string): Pick<GatedPostgres, 'client' | 'connect' | 'psql' | 'psqlProcess'> {
  const client = (config: pg.ClientConfig = {}): pg.Client => {
    const made = new pg.Client({
      host: '127.0.0.1',
      port,
      user: ROLE,
      password: PASSWORD,
      database: 'neondb',
      options: `endpoint=${ENDPOINT}`,
      ...config,
    });
    made.on('error', () => undefined);
    return made;
  };
  const env = { PATH: process.env.PATH, HOME: home, PGPASSWORD: PASSWORD, PGCONNECT_TIMEOUT: '20' };
  return {
    client,
    connect: async (config) => {
      const made = client(config);
      await made.connect();
      return made;
    },
    psql: async (conninfo, sql, environment = {}) => {
      const { stdout } = await run('psql', psqlWords(conninfo, sql), { env: { ...env, ...environment } });
      return stdout.trim();
    },
    psqlProcess: (conninfo, sql) => spawn('psql', psqlWords(conninfo, sql), { env, stdio: ['ignore', 'pipe', 'pipe'] }),
  };
}

const psqlWords = (conninfo: string, sql: string): string[] => ['-XAtq', '-v', 'ON_ERROR_STOP=1', '-c', sql, conninfo];

function createDirectory(postmaster: Postmaster): TestDirectory {
  const directory: TestDirectory = {
    entry: { endpoint_id: ENDPOINT, disabled: false, state: 'running' },
    secrets: new Map(),
    refreshed: [],
    async endpoint(id) {
      return id === directory.entry.endpoint_id ? directory.entry : undefined;
    },
    async role(id, name, { refresh = false } = {}) {
      if (id !== directory.entry.endpoint_id) return undefined;
      if (refresh) {
        directory.refreshed.push(name);
        if (postmaster.running) await readSecret(postmaster, directory.secrets, name);
      }
      return directory.secrets.get(name);
    },
    branch: async (id) => (id === BRANCH ? { access: directory.entry.access } : undefined),
    branchRole: async (id, name, options) => (id === BRANCH ? directory.role(ENDPOINT, name, options) : undefined),
  };
  return directory;
}

async function readSecret(postmaster: Postmaster, secrets: Map<string, RoleSecret>, name: string): Promise<void> {
  const { rows } = await postmaster.query(
    `SELECT rolpassword, rolcanlogin, rolvaliduntil FROM pg_catalog.pg_authid WHERE rolname = ${pg.escapeLiteral(name)}`,
  );
  if (rows.length === 0) secrets.delete(name);
  for (const { rolpassword, rolcanlogin, rolvaliduntil } of rows) {
    secrets.set(name, { verifier: rolpassword, can_login: rolcanlogin, valid_until: rolvaliduntil });
  }
}

function createWaker(postmaster: Postmaster): TestWaker {
  const waker: TestWaker = {
    wakes: 0,
    onWake: () => postmaster.start(),
    dial: async (id) => {
      if (id !== ENDPOINT || !postmaster.running) return undefined;
      return postmaster.dial();
    },
    wake: async (_id, signal) => {
      waker.wakes++;
      await waker.onWake(signal);
    },
    endIdle: async (_id, process_ids) => {
      await postmaster.query(
        `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE state = 'idle' AND pid IN (${process_ids.join()})`,
      );
    },
    archived: false,
    comesFromArchive: async () => waker.archived,
    journeys: [],
    onTravel: () => Promise.resolve(),
    travel: async (id, point, role) => {
      assert.equal(id, BRANCH);
      waker.journeys.push({ point, role });
      await waker.onTravel();
      return ENDPOINT;
    },
  };
  return waker;
}
