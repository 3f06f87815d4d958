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
const SCALE = 10;
/** Nine tenths of the `max_connections` of the smallest compute. */
const POOL_SIZE = 100;

interface Row {
  readonly sslmode: SslMode;
  readonly mode: QueryMode;
  /** PgBouncer before 1.21 knows no prepared statements. */
  readonly peer_mode: QueryMode;
  readonly clients: number;
  readonly at_least?: number;
}

const ROWS: readonly Row[] = [
  { sslmode: 'disable', mode: 'simple', peer_mode: 'simple', clients: 1, at_least: 0.85 },
  { sslmode: 'disable', mode: 'simple', peer_mode: 'simple', clients: 16, at_least: 0.95 },
  { sslmode: 'disable', mode: 'simple', peer_mode: 'simple', clients: 64, at_least: 0.95 },
  { sslmode: 'disable', mode: 'extended', peer_mode: 'extended', clients: 16, at_least: 0.95 },
  { sslmode: 'disable', mode: 'extended', peer_mode: 'extended', clients: 64, at_least: 0.95 },
  { sslmode: 'disable', mode: 'prepared', peer_mode: 'extended', clients: 16, at_least: 1 },
  { sslmode: 'require', mode: 'simple', peer_mode: 'simple', clients: 16, at_least: 0.9 },
  { sslmode: 'require', mode: 'simple', peer_mode: 'simple', clients: 64, at_least: 0.9 },
];

interface Measured {
  readonly ours: Throughput[];
  readonly peer: Throughput[];
}

/**
 * Throughput and CPU of a pooled host beside PgBouncer in transaction mode: the same pgbench, over TCP, in front of the
 * same compute's Unix socket, with as many server connections at most.
 */
export async function measure(options: MeasureOptions): Promise<Figure[]> {
  const rounds = roundsOf(options, ROUNDS, 2);
  const seconds = options.quick ? 2 : ROUND_SECONDS;
  await using installation = await startInstallation(options, { pool_gib: 4 });
  const project = await createProject(installation);
  const uri = new URL(project.connection_uri);
  const login = loginOf(uri);
  const { layout, record } = inspectCompute(installation, project.endpoint_id);
  const { socket_directory } = layout;
  await using bouncer = await startPgBouncer({
    ...{ ...login, socket_directory, owner: record.owner },
    transaction_pool: POOL_SIZE,
  });
  const { coppice } = installation;
  const pid = coppice.process.pid!;
  const direct: Between = { pid, port: coppice.pg_port, options: `endpoint=${project.endpoint_id}` };
  const pooled: Between = { ...direct, options: `endpoint=${project.endpoint_id}-pooler` };
  options.tell(`filling pgbench's tables at scale ${SCALE}`);
  await pgbench(direct, login, 'disable', ['-i', '-q', '-s', String(SCALE)]);
  const figures: Figure[] = [];
  for (const row of ROWS) {
    const measured: Measured = { ours: [], peer: [] };
    const words = (mode: QueryMode) => {
      const how = ['-c', String(row.clients), '-j', '1', '-M', mode, '-T', String(seconds)];
      return ['-n', '-S', ...how];
    };
    for (let round = -1; round < rounds; round += 1) {
      const ours = async () => measureOnce(pooled, login, row.sslmode, words(row.mode));
      const peer = async () => measureOnce(bouncer, login, row.sslmode, words(row.peer_mode));
      options.signal.throwIfAborted();
      // Each comes first in its turn.
      const first = round % 2 === 0 ? await ours() : await peer();
      const second = round % 2 === 0 ? await peer() : await ours();
      if (round < 0) continue;
      measured.ours.push(round % 2 === 0 ? first : second);
      measured.peer.push(round % 2 === 0 ? second : first);
    }
    figures.push(...figuresOf(row, measured, bouncer.version));
    options.tell(`${row.sslmode} ${row.mode} ${row.clients} clients done`);
  }
  return figures;
}

function figuresOf(
  { sslmode, mode, peer_mode, clients, at_least }: Row,
  { ours, peer }: Measured,
  version: string,
): Figure[] {
  const what = `pooled: pgbench -S -c ${clients} -M ${mode}, ${sslmode === 'require' ? 'TLS' : 'plain text'}`;
  const peer_is = `${version}, transaction mode${peer_mode === mode ? '' : `, -M ${peer_mode}`}`;
  const field = (name: keyof Throughput) => ({
    ours: ours.map((round) => round[name]),
    peer: peer.map((round) => round[name]),
  });
  return [
    ratioFigure({ what, unit: 'tps', ...field('tps'), peer_is, at_least }),
    absoluteFigure({
      ...{ what: `${what}: CPU of what stands between`, unit: 'ms / 1000 transactions' },
      ...{ ...field('cpu_ms_per_1000'), peer_is },
    }),
  ];
}
