import { setTimeout as delay } from 'node:timers/promises';
import { processesUsing } from '../test/support/leftovers.ts';
import { absoluteFigure, type Figure } from './figure.ts';
import { createProject, putToSleep, startInstallation } from './installation.ts';
import { cpuMilliseconds, familyCpuMilliseconds, pssBytes } from './processes.ts';
import { type MeasureOptions, roundsOf } from './section.ts';

const ROUNDS = 7;
const WATCHED_MS = 30_000;
/** What the start has begun comes to rest: autovacuum, the garbage of one run, connections that time out. */
const SETTLE_MS = 90_000;
const MB = 1024 ** 2;
const QUICK = { watched_ms: 10_000, settle_ms: 10_000 };

/** What a Coppice costs while its one project sleeps: memory and CPU of all its own processes, its database's included. */
export async function measure(options: MeasureOptions): Promise<Figure[]> {
  const rounds = roundsOf(options, ROUNDS, 2);
  const watched_ms = options.quick ? QUICK.watched_ms : WATCHED_MS;
  await using installation = await startInstallation(options, { pool_gib: 2 });
  const project = await createProject(installation);
  await putToSleep(installation, project);
  options.tell('letting it settle');
  await delay(options.quick ? QUICK.settle_ms : SETTLE_MS, undefined, { signal: options.signal });
  const node = installation.coppice.process.pid!;
  const family = () => [...new Set([node, ...processesUsing(installation.data_directory).map(({ pid }) => pid)])];
  const memory: number[] = [];
  const cpu: number[] = [];
  for (let round = 0; round < rounds; round += 1) {
    const before = { all: familyCpuMilliseconds(family()), node: cpuMilliseconds(node) };
    const began = performance.now();
    await delay(watched_ms, undefined, { signal: options.signal });
    const pids = family();
    const percent = (used_ms: number) => (used_ms / (performance.now() - began)) * 100;
    cpu.push(percent(familyCpuMilliseconds(pids) - before.all));
    const of_node = percent(cpuMilliseconds(node) - before.node).toFixed(2);
    memory.push(pids.reduce((sum, pid) => sum + pssBytes(pid), 0) / MB);
    const node_mb = (pssBytes(node) / MB).toFixed(0);
    options.tell(
      `${memory.at(-1)!.toFixed(0)} MB in ${pids.length} processes (Node ${node_mb} MB), ${cpu.at(-1)!.toFixed(2)} % (Node ${of_node} %)`,
    );
  }
  const what = 'an idle Coppice with one sleeping project';
  return [
    absoluteFigure({ what: `${what}, PSS of all its processes`, unit: 'MB', ours: memory, at_most: 250 }),
    absoluteFigure({ what: `${what}, CPU over ${watched_ms / 1000} s`, unit: '%', ours: cpu, at_most: 1 }),
  ];
}
