import { throughGateway } from './between.ts';
import { assertAllServed, type CrowdTarget, startCrowd } from './crowd.ts';
import { absoluteFigure, type Figure, median } from './figure.ts';
import { startInstallation } from './installation.ts';
import { createLargeProject } from './large-project.ts';
import { alternate, type MeasureOptions, roundsOf, secondsOf } from './section.ts';
import { type Answered, runWrk } from './wrk.ts';

const ROUNDS = 7;
const STATEMENT = 'select 1';

const ROWS: readonly { readonly connections: number; readonly p50_at_most?: number; readonly at_least?: number }[] = [
  { connections: 1, p50_at_most: 1.5 },
  { connections: 16, at_least: 2000 },
];

/**
 * SQL over HTTP on connections that are kept, in plain text, the compute awake; and for scale the same statement by `pg` on as many
 * connections of the pooled host. Both clients are processes of their own.
 */
export async function* measure(options: MeasureOptions): AsyncGenerator<Figure> {
  const rounds = roundsOf(options, ROUNDS, 2);
  const seconds = secondsOf(options);
  await using installation = await startInstallation(options, { pool_gib: 2 });
  const { project, login } = await createLargeProject(installation);
  await using crowd = await startCrowd();
  const between = throughGateway(installation, project, { pooled: true });
  const request = {
    url: `http://127.0.0.1:${installation.coppice.api_port}/sql`,
    headers: { 'Neon-Connection-String': project.connection_uri, 'Content-Type': 'application/json' },
    body: JSON.stringify({ query: STATEMENT, params: [] }),
  };
  const target: CrowdTarget = { between, login, sslmode: 'disable' };
  for (const { connections, p50_at_most, at_least } of ROWS) {
    const what = `SQL over HTTP, ${connections} kept ${connections === 1 ? 'connection' : 'connections'}`;
    options.tell(what);
    const byPg = async (): Promise<Answered> => {
      const result = await crowd.run({ what: 'query', target, connections, duration_ms: seconds * 1000 });
      assertAllServed(result, 'statements by pg');
      const { latencies_ms, took_ms } = result;
      return { per_second: (latencies_ms.length * 1000) / took_ms, p50_ms: median(latencies_ms) };
    };
    const answered = await alternate(
      options,
      { rounds },
      { ours: () => runWrk(request, { connections, seconds }), peer: byPg },
    );
    const beside = (field: keyof Answered) => ({
      ours: answered.ours.map((round) => round[field]),
      peer: answered.peer.map((round) => round[field]),
      peer_is: 'the same by pg on the pooled host; for scale',
    });
    yield absoluteFigure({ what: `${what}, p50`, unit: 'ms', ...beside('p50_ms'), at_most: p50_at_most });
    yield absoluteFigure({ what, unit: 'queries/s', ...beside('per_second'), at_least });
  }
}
