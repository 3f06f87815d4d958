import { throughGateway } from './between.ts';
import { assertAllServed, startCrowd } from './crowd.ts';
import { absoluteFigure, type Figure, percentile } from './figure.ts';
import { putToSleep, startInstallation } from './installation.ts';
import { createLargeProject } from './large-project.ts';
import { type MeasureOptions, roundsOf } from './section.ts';

const ROUNDS = 7;
const CLIENTS = 1000;

/**
 * Many clients at once at a pooled host whose compute sleeps, in plain text: how long each waits, from the connect to its first
 * row. All of them must be served.
 */
export async function measure(options: MeasureOptions): Promise<Figure[]> {
  const rounds = roundsOf(options, ROUNDS);
  await using installation = await startInstallation(options, { pool_gib: 2 });
  const { project, login } = await createLargeProject(installation);
  const between = throughGateway(installation, project, { pooled: true });
  const p50: number[] = [];
  const p99: number[] = [];
  // The first round is not counted.
  for (let round = -1; round < rounds; round += 1) {
    options.signal.throwIfAborted();
    await putToSleep(installation, project);
    await using crowd = await startCrowd();
    const result = await crowd.run({
      ...{ what: 'storm', count: CLIENTS },
      target: { between, login, sslmode: 'disable' },
    });
    assertAllServed(result, `${CLIENTS} clients at a sleeping endpoint`);
    const { latencies_ms } = result;
    const [half, most] = [percentile(latencies_ms, 0.5), percentile(latencies_ms, 0.99)];
    options.tell(`first row after ${half.toFixed(0)} ms p50, ${most.toFixed(0)} ms p99`);
    if (round < 0) continue;
    p50.push(half);
    p99.push(most);
  }
  const what = `${CLIENTS} connections at once to a sleeping endpoint, pooled, all served, to the first row`;
  return [
    absoluteFigure({ what: `${what}, p50`, unit: 'ms', ours: p50 }),
    absoluteFigure({ what: `${what}, p99`, unit: 'ms', ours: p99, at_most: 2000 }),
  ];
}
