import {
  type Between,
  type Login,
  measureOnce,
  pgbench,
  type QueryMode,
  type SslMode,
  throughGateway,
  throughPgBouncer,
  throughputFigures,
} from './between.ts';
import { openSocket } from './busy-parent.ts';
import type { Figure } from './figure.ts';
import { type Installation, type Project, startInstallation, untilQuiet } from './installation.ts';
import { createLargeProject } from './large-project.ts';
import { startPgBouncer } from './pgbouncer.ts';
import { alternate, type MeasureOptions, roundsOf, secondsOf } from './section.ts';

const ROUNDS = 7;
const SCALE = 10;
/** What each side may have of the server's connections. */
const SERVERS = 20;
/** Quick tries only these numbers of clients. */
const QUICK_CLIENTS = [16];

/** One way to use the pool. */
export interface Row {
  readonly sslmode: SslMode;
  readonly mode: QueryMode;
  readonly clients: number;
  /** Of each client, in place of a duration. */
  readonly transactions?: { readonly full: number; readonly quick: number };
  readonly at_least: number;
  readonly cpu_at_most?: number;
}

const ROWS: readonly Row[] = [
  { sslmode: 'disable', mode: 'simple', clients: 1, at_least: 0.85 },
  { sslmode: 'disable', mode: 'simple', clients: 16, at_least: 0.95, cpu_at_most: 1.2 },
  { sslmode: 'disable', mode: 'simple', clients: 64, at_least: 0.95, cpu_at_most: 1.2 },
  { sslmode: 'disable', mode: 'extended', clients: 1, at_least: 0.85 },
  { sslmode: 'disable', mode: 'extended', clients: 16, at_least: 0.95, cpu_at_most: 1.2 },
  { sslmode: 'disable', mode: 'extended', clients: 64, at_least: 0.95, cpu_at_most: 1.2 },
  { sslmode: 'disable', mode: 'prepared', clients: 16, at_least: 1 },
  { sslmode: 'disable', mode: 'prepared', clients: 64, at_least: 1 },
  { sslmode: 'require', mode: 'simple', clients: 16, at_least: 0.9 },
  { sslmode: 'require', mode: 'simple', clients: 64, at_least: 0.9 },
];

/** PgBouncer before 1.21 knows no prepared statements. */
const peerMode = (mode: QueryMode): QueryMode => (mode === 'prepared' ? 'extended' : mode);

/**
 * Throughput and CPU of a pooled host beside PgBouncer in transaction mode: the same pgbench, over TCP, in front of the
 * same compute's Unix socket, with as many server connections at most.
 */
export async function* measure(options: MeasureOptions): AsyncGenerator<Figure> {
  const rows = options.quick ? ROWS.filter(({ clients }) => QUICK_CLIENTS.includes(clients)) : ROWS;
  yield* measureRows(options, rows);
}

/** The same for rows of one's own, and for a gateway of several processes beside one PgBouncer, which cannot be more. */
export async function* measureRows(options: MeasureOptions, rows: readonly Row[], workers = 1): AsyncGenerator<Figure> {
  const rounds = roundsOf(options, ROUNDS, 2);
  const seconds = secondsOf(options);
  const settings = { ...options.settings, ...(workers > 1 && { COPPICE_GATEWAY_WORKERS: String(workers) }) };
  await using installation = await startInstallation({ ...options, settings }, { pool_gib: 4 });
  await using pools = await startPools(installation);
  const { ours, peer } = pools;
  if (workers > 1 && ours.between.pids.length === 1) throw new Error('this Coppice has no gateway workers');
  for (const { sslmode, mode, clients, transactions, at_least, cpu_at_most } of rows) {
    const lasting = transactions
      ? ['-t', String(options.quick ? transactions.quick : transactions.full)]
      : ['-T', String(seconds)];
    const text = sslmode === 'require' ? 'TLS' : 'plain text';
    const what = `pooled: pgbench -S -c ${clients} -M ${mode}, ${text}${workers > 1 ? `, ${workers} workers` : ''}`;
    options.tell(what);
    const once = ({ between, login }: Side, as: QueryMode) => {
      const how = ['-c', String(clients), '-j', '1', '-M', as, ...lasting];
      return measureOnce(between, login, sslmode, ['-n', '-S', ...how]);
    };
    const measured = await alternate(
      options,
      { rounds },
      { ours: () => once(ours, mode), peer: () => once(peer, peerMode(mode)) },
    );
    const as = peerMode(mode) === mode ? '' : `, -M ${peerMode(mode)}`;
    const peer_is = `${pools.version}, transaction mode${as}, ${SERVERS} server connections each`;
    yield* throughputFigures({ what, ...measured, peer_is, at_least, cpu_at_most });
  }
}

interface Side {
  readonly between: Between;
  readonly login: Login;
}

interface Pools extends AsyncDisposable {
  readonly ours: Side;
  readonly peer: Side;
  readonly version: string;
}

/**
 * Our pool and PgBouncer's in front of one compute that holds pgbench's tables. Each logs in as a role of its own, of the same
 * kind: ours may have no more connections by the role's limit, PgBouncer by its configuration.
 */
async function startPools(installation: Installation): Promise<Pools> {
  const { project, login: owner, target } = await createLargeProject(installation);
  const direct = throughGateway(installation, project, { pooled: false });
  await pgbench(direct, owner, 'disable', ['-i', '-q', '-s', String(SCALE)]);
  const [limited, free] = [
    await createRole(installation, project, 'limited'),
    await createRole(installation, project, 'free'),
  ];
  const client = await openSocket(target.socket_directory);
  await client.query(`alter role limited connection limit ${SERVERS}`).finally(() => client.end());
  const { database } = owner;
  const bouncer = await startPgBouncer({ ...target, user: 'free', transaction_pool: SERVERS });
  return {
    ours: {
      between: throughGateway(installation, project, { pooled: true }),
      login: { user: 'limited', password: limited, database },
    },
    peer: { between: throughPgBouncer(bouncer), login: { user: 'free', password: free, database } },
    version: bouncer.version,
    [Symbol.asyncDispose]: () => bouncer[Symbol.asyncDispose](),
  };
}

/** Makes a role by the API; returns its password. */
async function createRole(installation: Installation, project: Project, name: string): Promise<string> {
  const path = `/projects/${project.id}/branches/${project.branch_id}/roles`;
  const { role } = await installation.coppice.must('POST', path, { role: { name } });
  await untilQuiet(installation, project);
  return role.password;
}
