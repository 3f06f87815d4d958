import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { busyMilliseconds } from './machine.ts';

const run = promisify(execFile);
const CLIENTS = 8;
const FILL_TIMEOUT_MS = 1_800_000;
/** By then every section has ended. */
const LOAD_SECONDS_MAX = 7200;

/** Fills pgbench's tables as the owner of the database, whom the URI names. */
export async function fillPgbench(connection_uri: string, scale: number): Promise<void> {
  const uri = new URL(connection_uri);
  const options = uri.searchParams.get('options');
  const user = decodeURIComponent(uri.username);
  const place = ['-h', '127.0.0.1', '-p', uri.port || '5432', '-U', user, uri.pathname.slice(1)];
  await run('pgbench', ['-i', '-q', '-s', String(scale), ...place], {
    timeout: FILL_TIMEOUT_MS,
    env: {
      ...{ PATH: process.env.PATH, PGPASSWORD: decodeURIComponent(uri.password) },
      ...(options && { PGOPTIONS: options }),
    },
  });
}

/** On the server's own socket, as the platform's role: what is measured is the server, not the way to it. */
const place = (socket_directory: string) => ['-h', socket_directory, '-p', '5432', '-U', 'cloud_admin', 'neondb'];
const script = ['-n', '-M', 'prepared', '-b', 'tpcb-like', '-c', String(CLIENTS), '-j', '1'];

export interface Throughput {
  readonly tps: number;
  /** Of everything on the machine: server, pgbench, kernel, Coppice. */
  readonly cpu_ms_per_1000: number;
}

/** How many transactions a server does when nothing holds them back, or at a rate. */
export async function measureThroughput(
  socket_directory: string,
  { seconds, rate }: { seconds: number; rate?: number },
): Promise<Throughput> {
  const before_ms = busyMilliseconds();
  const steady = rate === undefined ? [] : ['--rate', String(rate)];
  const { stdout } = await run('pgbench', [...script, ...steady, '-T', String(seconds), ...place(socket_directory)]);
  const cpu_ms = busyMilliseconds() - before_ms;
  const [, tps] = /^tps = ([\d.]+) /m.exec(stdout) ?? [];
  const [, transactions] = /^number of transactions actually processed: (\d+)/m.exec(stdout) ?? [];
  if (tps === undefined || transactions === undefined) throw new Error(`pgbench said:\n${stdout}`);
  return { tps: Number(tps), cpu_ms_per_1000: (cpu_ms * 1000) / Number(transactions) };
}

/** A pgbench that goes on until it is stopped. */
export interface SteadyLoad extends AsyncDisposable {
  /** Throws when it has ended of itself. */
  assertRunning(): void;
  /** Stops it, and tells when its transactions ended: milliseconds since 1970, ascending. */
  stop(): Promise<Float64Array>;
}

/** Starts so many transactions a second, as pgbench's `--rate` spreads them. */
export async function startSteadyLoad(socket_directory: string, tps: number): Promise<SteadyLoad> {
  const directory = await mkdtemp(join(tmpdir(), 'load-'));
  const steady = ['--rate', String(tps), '-T', String(LOAD_SECONDS_MAX), '-l', '--log-prefix', join(directory, 'log')];
  const child = spawn('pgbench', [...script, ...steady, ...place(socket_directory)], {
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  let said = '';
  child.stderr.setEncoding('utf8').on('data', (text) => {
    said = (said + text).slice(-2000);
  });
  await once(child, 'spawn');
  return {
    assertRunning: () => {
      if (hasEnded(child)) throw new Error(`pgbench ended: ${said}`);
    },
    stop: async () => {
      await end(child);
      return readEnds(join(directory, `log.${child.pid}`));
    },
    [Symbol.asyncDispose]: async () => {
      await end(child);
      await rm(directory, { recursive: true, force: true });
    },
  };
}

/** A line tells of one transaction: client, number, duration, script, and its end in seconds and microseconds. */
async function readEnds(path: string): Promise<Float64Array> {
  const lines = (await readFile(path, 'latin1')).split('\n');
  // The last one may be cut off.
  const ends = Float64Array.from(lines.slice(0, -1), (line) => {
    const [, , , , seconds, microseconds] = line.split(' ');
    return Number(seconds) * 1000 + Number(microseconds) / 1000;
  });
  return ends.filter((at) => at > 0).sort();
}

/** Transactions a second that ended in a stretch of time. */
export function tpsBetween(ends: Float64Array, from_ms: number, to_ms: number): number {
  const before = (at_ms: number) => {
    let low = 0;
    let high = ends.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (ends[middle]! < at_ms) low = middle + 1;
      else high = middle;
    }
    return low;
  };
  return ((before(to_ms) - before(from_ms)) * 1000) / (to_ms - from_ms);
}

const hasEnded = (child: ChildProcess): boolean => child.exitCode !== null || child.signalCode !== null;

async function end(child: ChildProcess): Promise<void> {
  if (hasEnded(child)) return;
  const ended = once(child, 'exit');
  child.kill('SIGTERM');
  await ended;
}
