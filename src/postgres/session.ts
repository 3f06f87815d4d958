import type { Duplex } from 'node:stream';
import pg from 'pg';
import { PLATFORM_ROLE } from './access.ts';

export interface SessionOptions {
  readonly database: string;
  /** Default: the platform's superuser. Any other must be entered without a password, too. */
  readonly user?: string;
  readonly statement_timeout_ms?: number;
  readonly lock_timeout_ms?: number;
  /** How long the server may take to let us in. */
  readonly connect_timeout_ms?: number;
}

/** A platform session. `await using session = await openSession(...)` ends it. */
export type Session = pg.Client & AsyncDisposable;

/** Opens sessions to one compute; what the functions of this directory take. */
export type OpenSession = (database: string) => Promise<Session>;

/**
 * What `ALTER DATABASE ... SET` could otherwise decide for our sessions: start-up options win over it. Some of these
 * would only fail our statements, others (`role`, `search_path`, `standard_conforming_strings`) change their meaning.
 */
const STEADY = {
  role: 'none',
  search_path: 'pg_catalog',
  row_security: 'off',
  default_transaction_read_only: 'off',
  default_transaction_isolation: 'read\\ committed',
  default_transaction_deferrable: 'off',
  standard_conforming_strings: 'on',
  quote_all_identifiers: 'off',
  local_preload_libraries: '',
  exit_on_error: 'off',
  check_function_bodies: 'off',
  default_tablespace: '',
  temp_tablespaces: '',
  default_table_access_method: 'heap',
  synchronous_commit: 'on',
  idle_in_transaction_session_timeout: '60000',
  idle_session_timeout: '0',
  client_encoding: 'UTF8',
  client_min_messages: 'warning',
  bytea_output: 'hex',
  datestyle: 'ISO',
  intervalstyle: 'postgres',
  timezone: 'UTC',
  extra_float_digits: '1',
} as const;

/**
 * Only a superuser may set these: they keep the text of our statements, which hold verifiers, from the views that
 * customers read, and the server from running code of a library's or of a trigger's.
 */
const PRIVATE = {
  track_activities: 'off',
  compute_query_id: 'off',
  'pg_stat_statements.track': 'none',
  session_replication_role: 'origin',
} as const;

/**
 * Opens a session over a stream from the compute driver. Errors of the connection end the session and reject what runs;
 * they never become uncaught. Throws what the server answered, or that it did not answer in time.
 */
export async function openSession(dial: () => Promise<Duplex>, options: SessionOptions): Promise<Session> {
  const { database, user = PLATFORM_ROLE, connect_timeout_ms = 10_000 } = options;
  const stream = asSocket(await dial());
  const client = new pg.Client({
    stream: () => stream as never,
    user,
    database,
    // Without this `pg` looks for a password in the environment and in ~/.pgpass, should the server ask for one.
    password: () => Promise.reject(new Error(`the server asked ${user} for a password`)),
    ssl: false,
    connectionTimeoutMillis: connect_timeout_ms,
    application_name: 'coppice',
    options: startupOptions(user, options),
  });
  client.on('error', () => client.end().catch(() => undefined));
  const session = Object.assign(client, { [Symbol.asyncDispose]: () => endSession(client, stream) });
  try {
    const version = serverVersion(client);
    await client.connect();
    // 17 and newer; unknown start-up options would be refused by 16. A timeout set on the database may be short, so first.
    const newer = (await version) >= 17;
    if (newer) await client.query('SET transaction_timeout = 0');
    if (newer && user === PLATFORM_ROLE) await client.query('SET event_triggers = off');
    await client.query('SET SESSION AUTHORIZATION DEFAULT');
  } catch (error) {
    stream.destroy();
    throw error;
  }
  return session;
}

function startupOptions(
  user: string,
  { statement_timeout_ms = 30_000, lock_timeout_ms = 10_000 }: SessionOptions,
): string {
  const settings = {
    ...STEADY,
    ...(user === PLATFORM_ROLE ? PRIVATE : {}),
    statement_timeout: statement_timeout_ms,
    lock_timeout: lock_timeout_ms,
  };
  return Object.entries(settings)
    .map(([name, value]) => `-c ${name}=${value}`)
    .join(' ');
}

/** `pg` dials by itself; ours is connected already. */
function asSocket(stream: Duplex): Duplex {
  const same = () => stream;
  const connect = () => {
    queueMicrotask(() => stream.emit('connect'));
    return stream;
  };
  return Object.assign(stream, { connect, setNoDelay: same, setKeepAlive: same, ref: same, unref: same });
}

/** The server's major version, from the parameters it reports before it is ready. */
function serverVersion(client: pg.Client): Promise<number> {
  const { connection } = client as unknown as { connection: NodeJS.EventEmitter };
  return new Promise((resolve) => {
    connection.on('parameterStatus', (message: { parameterName: string; parameterValue: string }) => {
      if (message.parameterName === 'server_version') resolve(Number.parseInt(message.parameterValue, 10));
    });
  });
}

async function endSession(client: pg.Client, stream: Duplex): Promise<void> {
  const closed = stream.closed ? undefined : new Promise((resolve) => stream.once('close', resolve));
  const late = setTimeout(() => stream.destroy(), 2000);
  await client.end().catch(() => undefined);
  if (!stream.destroyed) stream.destroy();
  await closed;
  clearTimeout(late);
}
