import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { type Figure, ratioFigure } from './figure.ts';
import type { Installation, Project } from './installation.ts';
import type { PgBouncer } from './pgbouncer.ts';
import { cpuMilliseconds, gatewayPids } from './processes.ts';

const run = promisify(execFile);

/** What stands between clients and the compute. */
export interface Between {
  readonly pids: readonly number[];
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

/** The gateway in front of a project's compute, by its direct host or its pooled one. */
export function throughGateway(
  { coppice }: Installation,
  { endpoint_id }: Project,
  { pooled }: { pooled: boolean },
): Between {
  return {
    ...{ pids: gatewayPids(coppice.process.pid!), port: coppice.pg_port },
    options: `endpoint=${endpoint_id}${pooled ? '-pooler' : ''}`,
  };
}

export const throughPgBouncer = ({ pid, port }: PgBouncer): Between => ({ pids: [pid], port });

/** CPU that what stands between has used since its start, in milliseconds. */
export const cpuBetween = ({ pids }: Between): number => pids.reduce((sum, pid) => sum + cpuMilliseconds(pid), 0);

/** Runs pgbench once; throws unless every transaction was carried out. */
export async function measureOnce(
  between: Between,
  login: Login,
  sslmode: SslMode,
  arguments_: readonly string[],
): Promise<Throughput> {
  const before = cpuBetween(between);
  const output = await pgbench(between, login, sslmode, arguments_);
  const cpu_ms = cpuBetween(between) - before;
  const [, tps] = /^tps = ([\d.]+) \(without initial connection time\)$/m.exec(output) ?? [];
  const [, transactions] = /^number of transactions actually processed: (\d+)/m.exec(output) ?? [];
  const [, failed = '0'] = /^number of failed transactions: (\d+)/m.exec(output) ?? [];
  if (tps === undefined || transactions === undefined || failed !== '0') throw new Error(`pgbench said:\n${output}`);
  return { tps: Number(tps), cpu_ms_per_1000: (cpu_ms * 1000) / Number(transactions) };
}

/** Runs pgbench; returns what it prints. */
export async function pgbench(
  between: Between,
  login: Login,
  sslmode: SslMode,
  arguments_: readonly string[],
): Promise<string> {
  const place = ['-h', '127.0.0.1', '-p', String(between.port), '-U', login.user, login.database];
  const { stdout } = await run('pgbench', [...arguments_, ...place], {
    env: clientEnvironment(between, login, sslmode),
  });
  return stdout;
}

/** For programs of Postgres. The password is in their environment, where only root and their own user look. */
export const clientEnvironment = (
  { options }: Between,
  { password }: Login,
  sslmode: SslMode,
): Readonly<Record<string, string>> => ({
  PATH: process.env.PATH ?? '',
  PGPASSWORD: password,
  PGSSLMODE: sslmode,
  ...(options && { PGOPTIONS: options }),
});

/** The two lines of a row: how much went through, and what it took of the processors. */
export function throughputFigures({
  what,
  ours,
  peer,
  peer_is,
  at_least,
  cpu_at_most,
}: {
  readonly what: string;
  readonly ours: readonly Throughput[];
  readonly peer: readonly Throughput[];
  readonly peer_is: string;
  readonly at_least?: number;
  readonly cpu_at_most?: number;
}): Figure[] {
  const beside = (field: keyof Throughput) => ({
    ours: ours.map((round) => round[field]),
    peer: peer.map((round) => round[field]),
    peer_is,
  });
  return [
    ratioFigure({ what, unit: 'tps', ...beside('tps'), at_least }),
    ratioFigure({
      ...{ what: `${what}: CPU of what stands between`, unit: 'ms / 1000 transactions' },
      ...{ ...beside('cpu_ms_per_1000'), at_most: cpu_at_most },
    }),
  ];
}
