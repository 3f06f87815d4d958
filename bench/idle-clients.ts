import { setTimeout as delay } from 'node:timers/promises';
import { type Between, type SslMode, throughGateway, throughPgBouncer } from './between.ts';
import { assertAllServed, type CrowdTarget, startCrowd } from './crowd.ts';
import { absoluteFigure, type Figure, median } from './figure.ts';
import { putToSleep, startInstallation } from './installation.ts';
import { createLargeProject } from './large-project.ts';
import { startPgBouncer } from './pgbouncer.ts';
import { rssBytes } from './processes.ts';
import { type MeasureOptions, roundsOf } from './section.ts';

const MB = 1024 ** 2;
/** As many as an endpoint may have. */
const CLIENTS = 10_000;
const QUICK_CLIENTS = 1000;
const SAMPLES = 7;
const SAMPLE_INTERVAL_MS = 1000;
/** Logged in and closed before, so that what the first clients cost once is not counted. */
const FIRST_CLIENTS = 100;
/** What logging in has left behind is given back. */
const SETTLE_MS = 10_000;
const QUICK_SETTLE_MS = 2000;
const SERVERS = 20;

const ROWS: readonly { readonly sslmode: SslMode; readonly at_most: number }[] = [
  { sslmode: 'disable', at_most: 150 },
  { sslmode: 'require', at_most: 620 },
];

/**
 * What clients of a pooled host cost that do nothing, beside PgBouncer in transaction mode: memory that the process has in use with
 * them, less what it had before. Then their compute goes to sleep, and each of them runs a statement: none may have been lost.
 */
export async function* measure(options: MeasureOptions): AsyncGenerator<Figure> {
  for (const { sslmode, at_most } of ROWS) {
    // A Coppice for each: memory that was in use once does not count a second time.
    await using installation = await startInstallation(options, { pool_gib: 2 });
    const { project, login, target } = await createLargeProject(installation);
    await using bouncer = await startPgBouncer({ ...target, transaction_pool: SERVERS });
    const count = options.quick ? QUICK_CLIENTS : CLIENTS;
    const clients = `${count} idle pooled clients, ${sslmode === 'require' ? 'TLS' : 'plain text'}`;
    const peer = await holdClients(options, { between: throughPgBouncer(bouncer), login, sslmode }, count);
    options.tell(`${clients}: ${median(peer).toFixed(0)} MB in ${bouncer.version}`);
    const between = throughGateway(installation, project, { pooled: true });
    let lost = 0;
    const ours = await holdClients(options, { between, login, sslmode }, count, async (select) => {
      await putToSleep(installation, project);
      lost = await select();
    });
    yield absoluteFigure({
      ...{ what: `${clients}: memory (RSS) that they take`, unit: 'MB', ours, peer },
      ...{ peer_is: `${bouncer.version}, transaction mode`, at_most: (at_most * count) / CLIENTS },
    });
    yield absoluteFigure({
      ...{ what: `${clients}: lost through a suspend and wake`, unit: 'clients', ours: [lost], at_most: 0 },
    });
  }
}

/**
 * Logs in so many clients and samples the memory that they take, in MB. `use` is called while they are still there, with what lets
 * each run a statement and says how many could not.
 */
async function holdClients(
  options: MeasureOptions,
  target: CrowdTarget & { readonly between: Between },
  count: number,
  use?: (select: () => Promise<number>) => Promise<void>,
): Promise<number[]> {
  await using crowd = await startCrowd();
  const rss_mb = () => target.between.pids.reduce((sum, pid) => sum + rssBytes(pid), 0) / MB;
  const settle = () => delay(options.quick ? QUICK_SETTLE_MS : SETTLE_MS, undefined, { signal: options.signal });
  assertAllServed(await crowd.run({ what: 'open', target, count: FIRST_CLIENTS }), 'the first clients');
  assertAllServed(await crowd.run({ what: 'close' }), 'closing');
  await settle();
  const before_mb = rss_mb();
  assertAllServed(await crowd.run({ what: 'open', target, count }), `${count} clients`);
  await settle();
  const samples: number[] = [];
  for (let taken = 0; taken < roundsOf(options, SAMPLES); taken += 1) {
    samples.push(rss_mb() - before_mb);
    await delay(SAMPLE_INTERVAL_MS, undefined, { signal: options.signal });
  }
  await use?.(async () => {
    const { failures, latencies_ms } = await crowd.run({ what: 'select' });
    for (const failure of new Set(failures)) options.tell(failure);
    return count - latencies_ms.length;
  });
  return samples;
}
