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
  default_transaction_isolation: 'read committed',
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

/** Unknown before 17, where a start-up option that is not known is refused. */
const SINCE_17 = { transaction_timeout: '0' } as const;
const PRIVATE_SINCE_17 = { event_triggers: 'off' } as const;

/** What the server says to a start-up option that it does not know. */
const UNKNOWN_OPTION = '42704';

/**
 * Opens a session over a stream from the compute driver. Errors of the connection end the session and reject what runs;
 * they never become uncaught. Throws what the server answered, or that it did not answer in time.
 */
export async function openSession(dial: () => Promise<Duplex>, options: SessionOptions): Promise<Session> {
  try {
    return await connect(await dial(), options, { newer: true });
  } catch (error) {
    if ((error as { code?: string }).code !== UNKNOWN_OPTION) throw error;
    return connect(await dial(), options, { newer: false });
  }
}

async function connect(duplex: Duplex, options: SessionOptions, { newer }: { newer: boolean }): Promise<Session> {
  const { database, user = PLATFORM_ROLE, connect_timeout_ms = 10_000 } = options;
  const stream = asSocket(duplex);
  const client = new pg.Client({
    stream: () => stream as never,
    user,
    database,
    // Without this `pg` looks for a password in the environment and in ~/.pgpass, should the server ask for one.
    password: () => Promise.reject(new Error(`the server asked ${user} for a password`)),
    ssl: false,
    connectionTimeoutMillis: connect_timeout_ms,
    application_name: 'coppice',
    options: startupOptions(user, options, newer),
  });
  client.on('error', () => client.end().catch(() => undefined));
  try {
    await client.connect();
  } catch (error) {
    stream.destroy();
    throw error;
  }
  return Object.assign(client, { [Symbol.asyncDispose]: () => endSession(client, stream) });
}

/**
 * The start-up option `options` of a session of ours.
 * @param newer whether the server is 17 or later
 */
export function startupOptions(
  user: string,
  options: Pick<SessionOptions, 'statement_timeout_ms' | 'lock_timeout_ms'>,
  newer: boolean,
): string {
  const { statement_timeout_ms = 30_000, lock_timeout_ms = 10_000 } = options;
  const own = user === PLATFORM_ROLE;
  const settings = {
    ...STEADY,
    ...(newer ? SINCE_17 : {}),
    ...(own ? PRIVATE : {}),
    ...(own && newer ? PRIVATE_SINCE_17 : {}),
    session_authorization: user,
    statement_timeout: statement_timeout_ms,
    lock_timeout: lock_timeout_ms,
  };
  return Object.entries(settings)
    .map(([name, value]) => `-c ${name}=${String(value).replace(/[\\\s]/g, '\\$&')}`)
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

async function endSession(client: pg.Client, stream: Duplex): Promise<void> {
  const closed = stream.closed ? undefined : new Promise((resolve) => stream.once('close', resolve));
  const late = setTimeout(() => stream.destroy(), 2000);
  await client.end().catch(() => undefined);
  if (!stream.destroyed) stream.destroy();
  await closed;
  clearTimeout(late);
}
