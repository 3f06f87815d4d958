import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chown, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { createConnection } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { pgHba, pgIdent } from './access.ts';
import type { Distribution } from './distributions.ts';
import { type OpenSession, openSession } from './session.ts';

export interface PrivateServer {
  readonly distribution: Distribution;
  readonly data_directory: string;
  /** Who owns the data directory; undefined where everything runs as one user. */
  readonly owner?: { readonly uid: number; readonly gid: number };
  /** Given as `-c name=value`. */
  readonly settings?: Readonly<Record<string, string>>;
}

const START_TIMEOUT_MS = 60_000;
const LOG_BYTES = 16 * 1024;

/**
 * Runs a server that nobody else can reach for as long as `use` runs, then stops it cleanly. It dies with this process's
 * interest in it only if asked, so callers work on directories that they throw away when they do not finish.
 * @throws with the server's last words when it does not start
 */
export async function withPrivateServer<T>(server: PrivateServer, use: (open: OpenSession) => Promise<T>): Promise<T> {
  const directory = await mkdtemp(join(tmpdir(), 'coppice-'));
  let child: ChildProcess | undefined;
  try {
    for (const [name, text] of [
      ['postgresql.conf', ''],
      ['pg_hba.conf', pgHba()],
      ['pg_ident.conf', pgIdent()],
    ] as const) {
      await writeFile(join(directory, name), text);
    }
    if (server.owner) await chown(directory, server.owner.uid, server.owner.gid);
    child = start(server, directory);
    await ready(child, server.data_directory);
    const socket = join(directory, '.s.PGSQL.5432');
    return await use((database) => openSession(async () => createConnection(socket), { database }));
  } finally {
    if (child) await stop(child);
    await rm(directory, { recursive: true, force: true });
  }
}

function start({ distribution, data_directory, owner, settings = {} }: PrivateServer, directory: string): ChildProcess {
  const options = {
    config_file: join(directory, 'postgresql.conf'),
    hba_file: join(directory, 'pg_hba.conf'),
    ident_file: join(directory, 'pg_ident.conf'),
    listen_addresses: '',
    unix_socket_directories: directory,
    ...settings,
  };
  const args = Object.entries(options).flatMap(([name, value]) => ['-c', `${name}=${value}`]);
  return spawn(join(distribution.root, 'bin/postgres'), ['-D', data_directory, ...args], {
    ...owner,
    env: {},
    cwd: '/',
    stdio: ['ignore', 'ignore', 'pipe'],
  });
}

/** Waits for the line in postmaster.pid that says so; it is written after the socket accepts. */
async function ready(child: ChildProcess, dataDirectory: string): Promise<void> {
  let log = '';
  child.stderr?.on('data', (chunk) => {
    log = (log + chunk).slice(-LOG_BYTES);
  });
  const failed = once(child, 'error').then(([error]) => Promise.reject(error));
  failed.catch(() => undefined);
  const deadline = Date.now() + START_TIMEOUT_MS;
  while (child.exitCode === null && child.signalCode === null && Date.now() < deadline) {
    const lines = await readFile(join(dataDirectory, 'postmaster.pid'), 'utf8').catch(() => '');
    if (lines.startsWith(`${child.pid}\n`) && lines.split('\n')[7]?.startsWith('ready')) return;
    await Promise.race([delay(2), failed]);
  }
  throw new Error(`a server on ${dataDirectory} did not start: ${log.trim()}`);
}

/** Fast shutdown, then an immediate one: nobody but us was connected, so it is never needed unless something is wrong. */
async function stop(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null || child.pid === undefined) return;
  const ended = once(child, 'exit');
  const late = setTimeout(() => child.kill('SIGQUIT'), 60_000);
  child.kill('SIGINT');
  await ended;
  clearTimeout(late);
}
