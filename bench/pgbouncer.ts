import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmod, chown, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { choosePort } from '../src/main/ports.ts';
import { until } from '../test/support/until.ts';
import { openSocket } from './busy-parent.ts';

const run = promisify(execFile);

/** What PgBouncer stands in front of. */
export interface PgBouncerTarget {
  readonly socket_directory: string;
  readonly database: string;
  readonly user: string;
  /** Who may enter the socket directory: PgBouncer runs as that user. */
  readonly owner: { readonly uid: number; readonly gid: number } | undefined;
  /** Ends a connection to the server with the client that used it, instead of keeping it for the next one. */
  readonly new_connections?: boolean;
  /** Lends server connections by transaction, so many of them, instead of by session. */
  readonly transaction_pool?: number;
}

export interface PgBouncer extends AsyncDisposable {
  readonly port: number;
  readonly pid: number;
  /** `PgBouncer 1.18.0` */
  readonly version: string;
}

/** In session mode: clients in the benchmark, and some to spare. */
const POOL_SIZE = 80;
const CLIENTS_MAX = 12_000;
const LISTEN_BACKLOG = 4096;

/** Starts the installed PgBouncer on a compute's socket, in session mode unless told otherwise; clients choose between plain text and TLS. */
export async function startPgBouncer(target: PgBouncerTarget): Promise<PgBouncer> {
  const { stdout } = await run('pgbouncer', ['--version']).catch(() => {
    throw new Error('pgbouncer is missing: install the package pgbouncer');
  });
  const directory = await mkdtemp(join(tmpdir(), 'bouncer-'));
  await using undo = new AsyncDisposableStack();
  undo.defer(() => rm(directory, { recursive: true, force: true }));
  const port = await choosePort(['127.0.0.1'], 0, '');
  await writeFiles(directory, port, target);
  const child = spawn('pgbouncer', [join(directory, 'pgbouncer.ini')], {
    ...target.owner,
    cwd: directory,
    env: { PATH: process.env.PATH },
    stdio: 'ignore',
  });
  undo.defer(() => end(child));
  await once(child, 'spawn');
  await untilListening(child, port, join(directory, 'pgbouncer.log'));
  const stopping = undo.move();
  const version = stdout.split('\n', 1)[0]!;
  return { port, pid: child.pid!, version, [Symbol.asyncDispose]: () => stopping.disposeAsync() };
}

async function writeFiles(directory: string, port: number, target: PgBouncerTarget): Promise<void> {
  const { socket_directory, database, user, owner } = target;
  const path = (name: string) => join(directory, name);
  const key = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-keyout', path('key.pem')];
  const leaf = ['-x509', '-days', '2', '-subj', '/CN=localhost', '-out', path('certificate.pem')];
  await run('openssl', ['req', ...key, ...leaf]);
  await writeFile(path('users.txt'), `"${user}" "${await readVerifier(target)}"\n`);
  const settings = {
    listen_addr: '127.0.0.1',
    listen_port: port,
    unix_socket_dir: '',
    auth_type: 'scram-sha-256',
    auth_file: path('users.txt'),
    pool_mode: target.transaction_pool ? 'transaction' : 'session',
    default_pool_size: target.transaction_pool ?? POOL_SIZE,
    max_client_conn: CLIENTS_MAX,
    listen_backlog: LISTEN_BACKLOG,
    ignore_startup_parameters: 'extra_float_digits,options',
    ...(target.new_connections && { server_lifetime: 0 }),
    client_tls_sslmode: 'allow',
    client_tls_cert_file: path('certificate.pem'),
    client_tls_key_file: path('key.pem'),
    logfile: path('pgbouncer.log'),
    log_connections: 0,
    log_disconnections: 0,
  };
  const lines = Object.entries(settings).map(([name, value]) => `${name} = ${value}`);
  const databases = `${database} = host=${socket_directory} port=5432 dbname=${database}`;
  await writeFile(path('pgbouncer.ini'), `[databases]\n${databases}\n[pgbouncer]\n${lines.join('\n')}\n`);
  for (const name of ['users.txt', 'key.pem', 'certificate.pem', 'pgbouncer.ini']) {
    await chmod(path(name), 0o600);
    if (owner) await chown(path(name), owner.uid, owner.gid);
  }
  if (owner) await chown(directory, owner.uid, owner.gid);
}

/**
 * What the server itself keeps of the password. From the password PgBouncer would derive a verifier at each login, which
 * costs it milliseconds.
 */
async function readVerifier({ socket_directory, user }: PgBouncerTarget): Promise<string> {
  const client = await openSocket(socket_directory);
  try {
    const { rows } = await client.query('select rolpassword from pg_authid where rolname = $1', [user]);
    return rows[0].rolpassword;
  } finally {
    await client.end();
  }
}

async function untilListening(child: ChildProcess, port: number, log: string): Promise<void> {
  await until(
    async () => {
      if (child.exitCode !== null || child.signalCode !== null) {
        throw new Error(`pgbouncer ended: ${await readFile(log, 'utf8').catch(() => 'it wrote no log')}`);
      }
      return accepts(port);
    },
    { what: 'pgbouncer to listen' },
  );
}

function accepts(port: number): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>();
  const socket = connect({ host: '127.0.0.1', port });
  socket.once('connect', () => resolve(true)).once('error', () => resolve(false));
  return promise.finally(() => socket.destroy());
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const ended = once(child, 'exit');
  child.kill('SIGTERM');
  await ended;
}
