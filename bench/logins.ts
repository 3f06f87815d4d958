import { type Between, cpuBetween, type SslMode, throughGateway, throughPgBouncer } from './between.ts';
import { assertAllServed, type Crowd, type CrowdTarget, startCrowd } from './crowd.ts';
import { type Figure, ratioFigure } from './figure.ts';
import { startInstallation } from './installation.ts';
import { createLargeProject } from './large-project.ts';
import { startPgBouncer } from './pgbouncer.ts';
import { alternate, type MeasureOptions, roundsOf } from './section.ts';

const ROUNDS = 7;
const ROUND_MS = 10_000;
const QUICK_ROUND_MS = 2000;
const SERVERS = 20;

const ROWS: readonly { readonly sslmode: SslMode; readonly at_least?: number }[] = [
  { sslmode: 'require', at_least: 1.3 },
  { sslmode: 'disable' },
];

interface Logins {
  readonly per_second: number;
  readonly cpu_ms_per_1000: number;
}

/**
 * How many clients a second are let in on a pooled host, beside PgBouncer in transaction mode: connect, TLS, SCRAM, until the
 * server is ready for a statement, and close. Both know the verifier alone, and no login needs a connection to the compute.
 */
export async function* measure(options: MeasureOptions): AsyncGenerator<Figure> {
  const rounds = roundsOf(options, ROUNDS, 2);
  const duration_ms = options.quick ? QUICK_ROUND_MS : ROUND_MS;
  await using installation = await startInstallation(options, { pool_gib: 2 });
  const { project, login, target } = await createLargeProject(installation);
  await using bouncer = await startPgBouncer({ ...target, transaction_pool: SERVERS });
  await using first = await startCrowd();
  await using second = await startCrowd();
  // Two, so that the clients, which are no cheaper than who lets them in, are not what is measured.
  const crowds = [first, second];
  const gateway = throughGateway(installation, project, { pooled: true });
  for (const { sslmode, at_least } of ROWS) {
    const what = `logins a second on a pooled host, ${sslmode === 'require' ? 'TLS' : 'plain text'}`;
    options.tell(what);
    const once = (between: Between) => measureLogins(crowds, { between, login, sslmode }, duration_ms);
    const { ours, peer } = await alternate(
      options,
      { rounds },
      { ours: () => once(gateway), peer: () => once(throughPgBouncer(bouncer)) },
    );
    const beside = (field: keyof Logins) => ({
      ours: ours.map((round) => round[field]),
      peer: peer.map((round) => round[field]),
      peer_is: `${bouncer.version}, transaction mode`,
    });
    yield ratioFigure({ what, unit: 'logins/s', ...beside('per_second'), at_least });
    yield ratioFigure({
      ...{ what: `${what}: CPU of what lets them in`, unit: 'ms / 1000 logins' },
      ...beside('cpu_ms_per_1000'),
    });
  }
}

async function measureLogins(
  crowds: readonly Crowd[],
  target: CrowdTarget & { readonly between: Between },
  duration_ms: number,
): Promise<Logins> {
  const before_ms = cpuBetween(target.between);
  const results = await Promise.all(crowds.map((crowd) => crowd.run({ what: 'churn', target, duration_ms })));
  const cpu_ms = cpuBetween(target.between) - before_ms;
  for (const result of results) assertAllServed(result, 'logins');
  const count = results.reduce((sum, { latencies_ms }) => sum + latencies_ms.length, 0);
  const per_second = results.reduce(
    (sum, { latencies_ms, took_ms }) => sum + (latencies_ms.length * 1000) / took_ms,
    0,
  );
  return { per_second, cpu_ms_per_1000: (cpu_ms * 1000) / count };
}
