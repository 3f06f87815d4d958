import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmod, chown, mkdir, readFile, writeFile } from 'node:fs/promises';
import { createConnection, type Socket } from 'node:net';
import { join } from 'node:path';
import pg from 'pg';
import { pgHba, pgIdent } from '../../src/postgres/access.ts';
import type { Cluster, Nursery } from './postgres.ts';
import { until } from './until.ts';

/** A real server on a Unix socket that a test starts and stops as it likes. Customers enter by SCRAM. */
export interface Postmaster {
  readonly running: boolean;
  start(): Promise<void>;
  /** SIGTERM waits for clients, SIGINT ends them, SIGQUIT just stops. Resolves when the server is gone. */
  stop(signal?: 'SIGTERM' | 'SIGINT' | 'SIGQUIT'): Promise<void>;
  /** A stream to it; fails with ECONNREFUSED or ENOENT while it does not listen. */
  dial(): Promise<Socket>;
  /** Runs SQL as the platform's superuser. */
  query(sql: string, database?: string): Promise<pg.QueryResult>;
}

export async function plantPostmaster(
  nursery: Nursery,
  { major = 17, settings = {} }: { major?: number; settings?: Readonly<Record<string, string>> } = {},
): Promise<Postmaster> {
  const cluster = await nursery.plant(major);
  const directory = nursery.newPath();
  await mkdir(directory);
  await writeFile(join(directory, 'postgresql.conf'), '');
  await writeFile(join(directory, 'pg_hba.conf'), pgHba());
  await writeFile(join(directory, 'pg_ident.conf'), pgIdent());
  if (cluster.owner) await chown(directory, cluster.owner.uid, cluster.owner.gid);
  await chmod(directory, 0o711);
  return new TestPostmaster(cluster, directory, settings);
}

class TestPostmaster implements Postmaster {
  readonly #cluster: Cluster;
  readonly #directory: string;
  readonly #settings: Readonly<Record<string, string>>;
  #child: ChildProcess | undefined;
  #starting: Promise<void> | undefined;

  constructor(cluster: Cluster, directory: string, settings: Readonly<Record<string, string>>) {
    this.#cluster = cluster;
    this.#directory = directory;
    this.#settings = settings;
  }

  get running(): boolean {
    return this.#child !== undefined && this.#child.exitCode === null && this.#child.signalCode === null;
  }

  async start(): Promise<void> {
    // Whoever comes in the middle waits for the same server: a waker that says too early that it runs is asked again.
    if (!this.running) this.#starting = this.#launch();
    await this.#starting;
  }

  async #launch(): Promise<void> {
    const options = {
      config_file: join(this.#directory, 'postgresql.conf'),
      hba_file: join(this.#directory, 'pg_hba.conf'),
      ident_file: join(this.#directory, 'pg_ident.conf'),
      listen_addresses: '',
      unix_socket_directories: this.#directory,
      fsync: 'off',
      wal_level: 'logical',
      logging_collector: 'off',
      ...this.#settings,
    };
    const args = Object.entries(options).flatMap(([name, value]) => ['-c', `${name}=${value}`]);
    const { distribution, path, owner } = this.#cluster;
    const child = spawn(join(distribution.root, 'bin/postgres'), ['-D', path, ...args], {
      ...owner,
      env: {},
      cwd: '/',
      stdio: 'ignore',
    });
    this.#child = child;
    const isReady = async () => {
      if (!this.running) throw new Error('the server ended while it started');
      const lines = (await readFile(join(path, 'postmaster.pid'), 'utf8').catch(() => '')).split('\n');
      return lines[0] === String(child.pid) && lines[7]?.startsWith('ready') === true;
    };
    await until(isReady, { what: 'the server to accept connections' });
  }

  async stop(signal: 'SIGTERM' | 'SIGINT' | 'SIGQUIT' = 'SIGINT'): Promise<void> {
    const child = this.#child;
    if (!child || !this.running) return;
    const gone = once(child, 'exit');
    child.kill(signal);
    await gone;
  }

  async dial(): Promise<Socket> {
    const socket = createConnection(join(this.#directory, '.s.PGSQL.5432'));
    await once(socket, 'connect');
    return socket;
  }

  async query(sql: string, database = 'neondb'): Promise<pg.QueryResult> {
    const client = new pg.Client({ host: this.#directory, user: 'cloud_admin', database });
    client.on('error', () => undefined);
    await client.connect();
    try {
      return await client.query(sql);
    } finally {
      await client.end();
    }
  }
}
