import {
  measureOnce,
  pgbench,
  type QueryMode,
  type SslMode,
  throughGateway,
  throughPgBouncer,
  throughputFigures,
} from './between.ts';
import { type Figure, ratioFigure } from './figure.ts';
import { startInstallation } from './installation.ts';
import { createLargeProject } from './large-project.ts';
import { startPgBouncer } from './pgbouncer.ts';
import { alternate, type MeasureOptions, roundsOf, secondsOf } from './section.ts';

const ROUNDS = 7;
const SCALE = 10;

const ROWS: readonly {
  readonly sslmode: SslMode;
  readonly mode: QueryMode;
  readonly clients: number;
  readonly at_least?: number;
}[] = [
  { sslmode: 'disable', mode: 'simple', clients: 16, at_least: 0.95 },
  { sslmode: 'disable', mode: 'simple', clients: 64, at_least: 0.95 },
  { sslmode: 'require', mode: 'simple', clients: 16, at_least: 0.95 },
  { sslmode: 'require', mode: 'simple', clients: 64 },
];

/**
 * Throughput of a direct connection through the gateway beside PgBouncer in session mode: the same pgbench, over TCP,
 * in front of the same compute's Unix socket. PgBouncer keeps the server's processes of the round before, which are
 * warm, where each direct connection has a new one; so a second PgBouncer begins with new ones, too, and the ratio to
 * that is what standing between costs.
 */
export async function* measure(options: MeasureOptions): AsyncGenerator<Figure> {
  const rounds = roundsOf(options, ROUNDS, 2);
  const seconds = secondsOf(options);
  await using installation = await startInstallation(options, { pool_gib: 4 });
  const { project, login, target } = await createLargeProject(installation);
  await using bouncer = await startPgBouncer(target);
  await using renewing = await startPgBouncer({ ...target, new_connections: true });
  const gateway = throughGateway(installation, project, { pooled: false });
  options.tell(`filling pgbench's tables at scale ${SCALE}`);
  await pgbench(gateway, login, 'disable', ['-i', '-q', '-s', String(SCALE)]);
  for (const { sslmode, mode, clients, at_least } of ROWS) {
    const what = `pgbench -S -c ${clients} -M ${mode}, ${sslmode === 'require' ? 'TLS' : 'plain text'}`;
    options.tell(what);
    const arguments_ = ['-n', '-S', '-c', String(clients), '-j', '1', '-M', mode, '-T', String(seconds)];
    const { ours, peer, renewed } = await alternate(
      options,
      { rounds },
      {
        ours: () => measureOnce(gateway, login, sslmode, arguments_),
        peer: () => measureOnce(throughPgBouncer(bouncer), login, sslmode, arguments_),
        renewed: () => measureOnce(throughPgBouncer(renewing), login, sslmode, arguments_),
      },
    );
    const peer_is = `${bouncer.version}, session mode`;
    yield* throughputFigures({ what, ours, peer, peer_is, at_least });
    yield ratioFigure({
      ...{ what: `${what}, new server processes on both sides`, unit: 'tps' },
      ...{ ours: ours.map(({ tps }) => tps), peer: renewed.map(({ tps }) => tps) },
      peer_is: `${peer_is}, server_lifetime 0`,
    });
  }
}
