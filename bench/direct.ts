import { inspectCompute } from './bare-server.ts';
import {
  type Between,
  loginOf,
  measureOnce,
  pgbench,
  type QueryMode,
  type SslMode,
  type Throughput,
} from './between.ts';
import { absoluteFigure, type Figure, ratioFigure } from './figure.ts';
import { createProject, startInstallation } from './installation.ts';
import { startPgBouncer } from './pgbouncer.ts';
import { type MeasureOptions, roundsOf } from './section.ts';

const ROUNDS = 7;
const ROUND_SECONDS = 5;
const CLIENTS = 16;
const SCALE = 10;

const ROWS: readonly { readonly sslmode: SslMode; readonly mode: QueryMode; readonly at_least?: number }[] = [
  { sslmode: 'disable', mode: 'simple', at_least: 0.95 },
  { sslmode: 'require', mode: 'simple', at_least: 0.95 },
  { sslmode: 'disable', mode: 'prepared' },
  { sslmode: 'require', mode: 'prepared' },
];

interface Contestant {
  readonly between: Between;
  readonly measured: Throughput[];
}

/**
 * Throughput of a direct connection through the gateway beside PgBouncer in session mode: the same pgbench, over TCP,
 * in front of the same compute's Unix socket. PgBouncer keeps the server's processes of the round before, which are
 * warm, where each direct connection has a new one; so a second PgBouncer begins with new ones, too, and the ratio to
 * that is what standing between costs.
 */
export async function measure(options: MeasureOptions): Promise<Figure[]> {
  const rounds = roundsOf(options, ROUNDS, 2);
  const seconds = options.quick ? 2 : ROUND_SECONDS;
  await using installation = await startInstallation(options, { pool_gib: 4 });
  // Of the machine's size: what stands in front is measured, not the compute's share of the CPU.
  const project = await createProject(installation, {
    default_endpoint_settings: { autoscaling_limit_min_cu: 2, autoscaling_limit_max_cu: 2 },
  });
  const uri = new URL(project.connection_uri);
  const login = loginOf(uri);
  const { layout, record } = inspectCompute(installation, project.endpoint_id);
  const { socket_directory } = layout;
  const target = { ...login, socket_directory, owner: record.owner };
  await using bouncer = await startPgBouncer(target);
  await using renewing = await startPgBouncer({ ...target, new_connections: true });
  const { coppice } = installation;
  const gateway: Between = {
    ...{ pid: coppice.process.pid!, port: coppice.pg_port },
    options: uri.searchParams.get('options') ?? undefined,
  };
  options.tell(`filling pgbench's tables at scale ${SCALE}`);
  await pgbench(gateway, login, 'disable', ['-i', '-q', '-s', String(SCALE)]);
  const figures: Figure[] = [];
  for (const row of ROWS) {
    const arguments_ = ['-n', '-S', '-c', String(CLIENTS), '-j', '1', '-M', row.mode, '-T', String(seconds)];
    const ours: Contestant = { between: gateway, measured: [] };
    const peer: Contestant = { between: bouncer, measured: [] };
    const renewed: Contestant = { between: renewing, measured: [] };
    const contestants = [ours, peer, renewed];
    for (let round = -1; round < rounds; round += 1) {
      // Each comes first in its turn.
      const first = (round + contestants.length) % contestants.length;
      for (const { between, measured } of [...contestants.slice(first), ...contestants.slice(0, first)]) {
        options.signal.throwIfAborted();
        const throughput = await measureOnce(between, login, row.sslmode, arguments_);
        if (round >= 0) measured.push(throughput);
      }
    }
    const measured = { ours: ours.measured, peer: peer.measured, renewed: renewed.measured };
    figures.push(...figuresOf(row, { ...measured, version: bouncer.version }));
    options.tell(`${row.sslmode} ${row.mode} done`);
  }
  return figures;
}

interface Measured {
  readonly ours: Throughput[];
  readonly peer: Throughput[];
  /** Of the peer with new connections. */
  readonly renewed: Throughput[];
  readonly version: string;
}

function figuresOf(
  { sslmode, mode, at_least }: (typeof ROWS)[number],
  { ours, peer, renewed, version }: Measured,
): Figure[] {
  const what = `pgbench -S -c ${CLIENTS} -M ${mode}, ${sslmode === 'require' ? 'TLS' : 'plain text'}`;
  const peer_is = `${version}, session mode`;
  const beside = (other: Throughput[], field: keyof Throughput) => ({
    ours: ours.map((round) => round[field]),
    peer: other.map((round) => round[field]),
  });
  return [
    ratioFigure({ what, unit: 'tps', ...beside(peer, 'tps'), peer_is, at_least }),
    ratioFigure({
      ...{ what: `${what}, new server processes on both sides`, unit: 'tps' },
      ...{ ...beside(renewed, 'tps'), peer_is: `${peer_is}, server_lifetime 0` },
    }),
    absoluteFigure({
      ...{ what: `${what}: CPU of what stands between`, unit: 'ms / 1000 transactions' },
      ...{ ...beside(peer, 'cpu_ms_per_1000'), peer_is },
    }),
  ];
}
