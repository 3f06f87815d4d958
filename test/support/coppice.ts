import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmod, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import pg from 'pg';
import { copyStartedDirectory } from './started-directory.ts';
import { until } from './until.ts';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));
export const BOOTSTRAP_KEY = 'napi_a_key_for_tests_only_0123456789';
const START_TIMEOUT_MS = 120_000;

/** What a call of the API answered. */
export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  // biome-ignore lint/suspicious/noExplicitAny: tests look into bodies whose shape the contract test checks
  readonly body: any;
}

/** A Coppice that runs as people run it: a process of its own on a data directory of its own. */
export interface TestCoppice {
  readonly data_directory: string;
  /** NaN where its roles leave it out, as the next. */
  readonly api_port: number;
  readonly pg_port: number;
  readonly process: ChildProcess;
  /** Standard output and error so far. */
  output(): string;
  /** Calls the API with the bootstrap key. */
  call(method: string, path: string, body?: unknown): Promise<Answer>;
  /** Calls, and fails unless the answer is 2xx. */
  must(method: string, path: string, body?: unknown): Promise<Answer['body']>;
  /** Runs a statement in Coppice's own database. */
  ownDatabase(sql: string): Promise<pg.QueryResult>;
  /** Waits until every operation of a project has ended; fails when one has failed. */
  settled(projectId: string): Promise<void>;
  /** Kills the process at once; its servers go on. */
  kill(): Promise<void>;
  /** Stops in order. */
  stop(): Promise<void>;
}

export interface CoppiceOptions {
  readonly env?: Readonly<Record<string, string>>;
  /** Of an earlier one; else one of `makeStartedDirectory`, which `removeDataDirectory` removes. */
  readonly data_directory?: string;
  /** What `up` is started with, besides the ports. */
  readonly flags?: readonly string[];
}

/** For a data directory that is not there yet. */
export async function makeDataDirectory(): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), 'cop-'));
  await chmod(directory, 0o711);
  return join(directory, 'd');
}

/** A data directory in which a Coppice was started before, if the run has one to copy: that saves the first start. */
export async function makeStartedDirectory(): Promise<string> {
  const data_directory = await makeDataDirectory();
  await copyStartedDirectory(data_directory);
  return data_directory;
}

/** Starts a Coppice on free ports and waits until it is ready. */
export async function startCoppice(options: CoppiceOptions = {}): Promise<TestCoppice> {
  const data_directory = options.data_directory ?? (await makeStartedDirectory());
  const { child, output } = spawnCoppice({ ...options, data_directory });
  const ended = () => child.exitCode !== null || child.signalCode !== null;
  await until(() => output().includes('Coppice is ready') || ended(), {
    what: 'Coppice to be ready',
    timeout_ms: START_TIMEOUT_MS,
  }).catch((error) => {
    child.kill('SIGKILL');
    throw error;
  });
  assert.equal(child.exitCode ?? child.signalCode, null, `Coppice did not start:\n${output()}`);
  const api_port = Number(/API +http:\/\/[^:]+:(\d+)/.exec(output())?.[1]);
  const pg_port = Number(/Postgres +\S+:(\d+)/.exec(output())?.[1]);
  const call = (method: string, path: string, body?: unknown) => callApi(api_port, method, path, body);
  const must = async (method: string, path: string, body?: unknown) => {
    const answer = await call(method, path, body);
    const { status } = answer;
    assert.ok(status < 300, `${method} ${path}: ${status} ${JSON.stringify(answer.body)}\n${output()}`);
    return answer.body;
  };
  const end = async (signal: NodeJS.Signals) => {
    if (child.exitCode !== null || child.signalCode !== null) return;
    const ended = once(child, 'exit');
    child.kill(signal);
    await ended;
  };
  return {
    data_directory,
    api_port,
    pg_port,
    process: child,
    output,
    call,
    must,
    ownDatabase: (sql) => queryOwnDatabase(data_directory, sql),
    settled: (projectId) =>
      until(
        async () => {
          const { operations } = await must('GET', `/projects/${projectId}/operations`);
          const failed = operations.find(({ status }: { status: string }) => status === 'failed');
          assert.equal(failed, undefined, `an operation failed: ${JSON.stringify(failed)}\n${output()}`);
          return operations.every(({ status }: { status: string }) =>
            ['finished', 'skipped', 'cancelled'].includes(status),
          );
        },
        { what: 'the operations to end', timeout_ms: START_TIMEOUT_MS },
      ),
    kill: () => end('SIGKILL'),
    stop: () => end('SIGTERM'),
  };
}

/** Starts the process alone, ready or not. */
export function spawnCoppice({ env = {}, flags = [], data_directory }: CoppiceOptions & { data_directory: string }): {
  child: ChildProcess;
  output: () => string;
} {
  let text = '';
  const child = spawn(process.execPath, [join(ROOT, 'bin/coppice.ts'), 'up', ...flags], {
    cwd: ROOT,
    env: {
      PATH: process.env.PATH,
      HOME: process.env.HOME,
      // Of the run: our own modules are read and compiled once, and not at each of hundreds of starts.
      NODE_COMPILE_CACHE: process.env.NODE_COMPILE_CACHE,
      TMPDIR: tmpdir(),
      COPPICE_DATA_DIR: data_directory,
      COPPICE_API_PORT: '0',
      COPPICE_PG_PORT: '0',
      COPPICE_MIN_SUSPEND_TIMEOUT_SECONDS: '1',
      COPPICE_BOOTSTRAP_API_KEY: BOOTSTRAP_KEY,
      COPPICE_LOG_LEVEL: 'warn',
      ...env,
    },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  for (const stream of [child.stdout, child.stderr]) stream.setEncoding('utf8').on('data', (chunk) => (text += chunk));
  return { child, output: () => text };
}

async function callApi(port: number, method: string, path: string, body?: unknown): Promise<Answer> {
  const response = await fetch(`http://127.0.0.1:${port}/api/v2${path}`, {
    method,
    headers: {
      authorization: `Bearer ${BOOTSTRAP_KEY}`,
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
    },
    body: body === undefined ? undefined : JSON.stringify(body),
  });
  const text = await response.text();
  return { status: response.status, headers: response.headers, body: text === '' ? undefined : JSON.parse(text) };
}

/** Removes what `makeDataDirectory` or `makeStartedDirectory` made. */
export async function removeDataDirectory(data_directory: string): Promise<void> {
  await rm(join(data_directory, '..'), { recursive: true, force: true, maxRetries: 3 });
}

async function queryOwnDatabase(data_directory: string, sql: string): Promise<pg.QueryResult> {
  const client = new pg.Client({ host: join(data_directory, 'run/store'), user: 'cloud_admin', database: 'coppice' });
  await client.connect();
  try {
    return await client.query(sql);
  } finally {
    await client.end();
  }
}
