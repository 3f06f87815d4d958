import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { cpuMilliseconds } from './processes.ts';

const run = promisify(execFile);

/** What stands between pgbench and the compute. */
export interface Between {
  readonly pid: number;
  readonly port: number;
  /** Startup options that tell it which compute is meant. */
  readonly options?: string;
}

export interface Login {
  readonly user: string;
  readonly password: string;
  readonly database: string;
}

export type SslMode = 'disable' | 'require';
export type QueryMode = 'simple' | 'extended' | 'prepared';

export interface Throughput {
  readonly tps: number;
  readonly cpu_ms_per_1000: number;
}

/** Who connects, from a connection string. */
export const loginOf = (uri: URL): Login => ({
  user: decodeURIComponent(uri.username),
  password: decodeURIComponent(uri.password),
  database: uri.pathname.slice(1),
});

/** Runs pgbench once; throws unless every transaction was carried out. */
export async function measureOnce(
  between: Between,
  login: Login,
  sslmode: SslMode,
  arguments_: readonly string[],
): Promise<Throughput> {
  const before = cpuMilliseconds(between.pid);
  const output = await pgbench(between, login, sslmode, arguments_);
  const cpu_ms = cpuMilliseconds(between.pid) - before;
  const [, tps] = /^tps = ([\d.]+) \(without initial connection time\)$/m.exec(output) ?? [];
  const [, transactions] = /^number of transactions actually processed: (\d+)/m.exec(output) ?? [];
  const [, failed = '0'] = /^number of failed transactions: (\d+)/m.exec(output) ?? [];
  if (tps === undefined || transactions === undefined || failed !== '0') throw new Error(`pgbench said:\n${output}`);
  return { tps: Number(tps), cpu_ms_per_1000: (cpu_ms * 1000) / Number(transactions) };
}

/** Runs pgbench; returns what it prints. The password is in its environment, where only root and its own user look. */
export async function pgbench(
  { port, options }: Between,
  { user, password, database }: Login,
  sslmode: SslMode,
  arguments_: readonly string[],
): Promise<string> {
  const { stdout } = await run(
    'pgbench',
    [...arguments_, '-h', '127.0.0.1', '-p', String(port), '-U', user, database],
    {
      env: { PATH: process.env.PATH, PGPASSWORD: password, PGSSLMODE: sslmode, ...(options && { PGOPTIONS: options }) },
    },
  );
  return stdout;
}
