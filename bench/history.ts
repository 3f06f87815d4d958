import { setTimeout as delay } from 'node:timers/promises';
import { type BaseBackup, takeBaseBackup } from './base-backup.ts';
import {
  assertMoment,
  type BranchTime,
  type BusyParent,
  makeBusyParent,
  startBeats,
  timeBranch,
} from './busy-parent.ts';
import { absoluteFigure, type Figure, ratioFigure } from './figure.ts';
import { firstRow } from './first-row.ts';
import { measureCost } from './history-cost.ts';
import { type Installation, putToSleep, startInstallation, untilQuiet } from './installation.ts';
import { startSteadyLoad, tpsBetween } from './pgbench.ts';
import { sampleReplicaLag } from './replica-lag.ts';
import { alternate, type MeasureOptions, roundsOf } from './section.ts';
import { measureUnshared } from './unshared.ts';

const ROUNDS = 7;
const TPS = 1000;
/** Between two branches of a busy parent, so that the one's echo is not the other's. */
const CALM_MS = 5000;

interface Extent {
  readonly size: string;
  /** Of pgbench: 15 MB each. */
  readonly scale: number;
  readonly back_seconds: number;
  /** Of the project: the time to go back, and what is enough for the rounds to be there still. */
  readonly history_seconds: number;
  readonly replayed_seconds: number;
  readonly lag_seconds: number;
  readonly cost_seconds: number;
  readonly branches: number;
  readonly pool_gib: number;
}

const FULL: Extent = {
  ...{ size: '5 GB', scale: 330, back_seconds: 600, history_seconds: 660, replayed_seconds: 30 },
  ...{ lag_seconds: 60, cost_seconds: 12, branches: 100, pool_gib: 50 },
};
const QUICK: Extent = {
  ...{ size: '300 MB', scale: 20, back_seconds: 60, history_seconds: 90, replayed_seconds: 5 },
  ...{ lag_seconds: 5, cost_seconds: 4, branches: 4, pool_gib: 12 },
};

/** What history costs and gives, of one large project under a steady load. */
export async function* measure(options: MeasureOptions): AsyncGenerator<Figure> {
  const extent = options.quick ? QUICK : FULL;
  const rounds = roundsOf(options, ROUNDS);
  await using installation = await startInstallation(options, extent);
  options.tell(`filling a parent of ${extent.size}`);
  const parent = await makeBusyParent(installation, extent);
  yield* measureUnderLoad(options, installation, parent, { extent, rounds });
  await putToSleep(installation, parent.project);
  const seconds = extent.cost_seconds;
  yield* await measureCost(options, installation, parent, { rounds, seconds, tps: TPS });
  const { scale, branches: count } = extent;
  yield* await measureUnshared(options, installation, parent, { scale, count });
}

interface Shape {
  readonly extent: Extent;
  readonly rounds: number;
}

/** Begins with what needs no past, while the past comes about. */
async function* measureUnderLoad(
  options: MeasureOptions,
  installation: Installation,
  parent: BusyParent,
  { extent, rounds }: Shape,
): AsyncGenerator<Figure> {
  const { tell, signal } = options;
  const what = `a parent of ${extent.size} at ${TPS} tps`;
  const began = Date.now();
  await using load = await startSteadyLoad(parent.socket_directory, TPS);
  await using _beats = await startBeats(parent);
  tell('load goes on; taking a base backup of it');
  await using backup = await takeBaseBackup(installation, parent, { replayed_ms: extent.replayed_seconds * 1000 });
  tell('sampling the lag of a read replica');
  const lag = await sampleReplicaLag(installation, parent, { seconds: extent.lag_seconds, signal });
  yield absoluteFigure({
    ...{ what: `a read replica's lag behind ${what}, p99`, unit: 'ms', ours: lag, share: 0.99, at_most: 200 },
  });
  const heads = await measureHeads(options, installation, parent, rounds);
  yield absoluteFigure({
    ...{ what: `branch at the head of ${what}, p50`, unit: 'ms', at_most: 1000 },
    ...{ ours: heads.map(({ took_ms }) => took_ms) },
    ...{ peer: [backup.took_ms], peer_is: 'a base backup of it, not even started' },
  });
  const left_ms = Math.max(0, began + (extent.back_seconds + 5) * 1000 - Date.now());
  tell(`waiting ${(left_ms / 1000).toFixed(0)} s for the past`);
  await delay(left_ms, undefined, { signal });
  load.assertRunning();
  yield* await measurePoints(options, installation, parent, { what, extent, rounds, backup });
  yield absoluteFigure({
    ...{ what: 'restore to that point, until the first row, p50', unit: 'ms', at_most: 3000 },
    ours: await measureRestores(options, installation, parent, { extent, rounds }),
  });
  const load_ended = Date.now();
  const ends = await load.stop();
  yield* headFigures(heads, ends);
  yield absoluteFigure({
    ...{ what: 'steady load during all of that', unit: 'tps', ours: [tpsBetween(ends, began, load_ended)] },
  });
}

async function measureHeads(
  { tell, signal }: MeasureOptions,
  installation: Installation,
  parent: BusyParent,
  rounds: number,
): Promise<BranchTime[]> {
  const times: BranchTime[] = [];
  for (let round = -1; round < rounds; round += 1) {
    await delay(CALM_MS, undefined, { signal });
    const time = await timeBranch(installation, parent);
    if (round >= 0) times.push(time);
  }
  tell(`branch at head: ${times.map(({ took_ms }) => took_ms.toFixed(0)).join(' ')} ms`);
  return times;
}

function headFigures(times: BranchTime[], ends: Float64Array): Figure[] {
  const tps = (from_ms: number, to_ms: number) =>
    times.map(({ asked_at }) => tpsBetween(ends, asked_at + from_ms, asked_at + to_ms));
  const after = "of a branch at head: its parent's throughput";
  const sides = { unit: 'tps', peer: tps(-3000, 0), peer_is: 'the three seconds before' };
  return [
    ratioFigure({ what: `second second ${after}`, at_least: 0.95, ours: tps(1000, 2000), ...sides }),
    ratioFigure({ what: `first second ${after}`, ours: tps(0, 1000), ...sides }),
  ];
}

async function measurePoints(
  options: MeasureOptions,
  installation: Installation,
  parent: BusyParent,
  { what, extent, rounds, backup }: Shape & { what: string; backup: BaseBackup },
): Promise<Figure[]> {
  const { back_seconds, replayed_seconds } = extent;
  const { ours, peer } = await alternate(
    options,
    { rounds },
    {
      ours: async () => (await timeBranch(installation, parent, momentBack(back_seconds))).took_ms,
      peer: () => backup.restore(),
    },
  );
  const minutes = back_seconds / 60;
  const peer_is = `plain copy of a base backup (which took ${(backup.took_ms / 1000).toFixed(1)} s) and Postgres's own replay of ${replayed_seconds} s of log`;
  options.tell(`points: ${ours.map((ms) => ms.toFixed(0)).join(' ')} ms`);
  return [
    absoluteFigure({
      ...{ what: `branch at a point ${minutes} min back on ${what}, p50`, unit: 'ms', ours, at_most: 3000 },
    }),
    ratioFigure({ what: 'that branch, p50', unit: 'ms', ours, peer, peer_is, at_most: 0.2 }),
  ];
}

const momentBack = (seconds: number): Date => new Date(Date.now() - seconds * 1000);

/** A branch is made what the busy one was, again and again. */
async function measureRestores(
  { tell, signal }: MeasureOptions,
  installation: Installation,
  { project }: BusyParent,
  { extent, rounds }: Shape,
): Promise<number[]> {
  const { coppice } = installation;
  const { branch, connection_uris } = await coppice.must('POST', `/projects/${project.id}/branches`, {
    branch: { parent_id: project.branch_id },
    endpoints: [{ type: 'read_write' }],
  });
  const [{ connection_uri }] = connection_uris;
  await untilQuiet(installation, project);
  const took: number[] = [];
  for (let round = -1; round < rounds; round += 1) {
    signal.throwIfAborted();
    const moment = momentBack(extent.back_seconds);
    const began = performance.now();
    await coppice.must('POST', `/projects/${project.id}/branches/${branch.id}/restore`, {
      source_branch_id: project.branch_id,
      source_timestamp: moment.toISOString(),
    });
    const posted_ms = performance.now() - began;
    const took_ms = posted_ms + (await firstRow({ connection_uri }, 'select 1 from pgbench_branches limit 1'));
    if (round >= 0) took.push(took_ms);
    await assertMoment(connection_uri, moment);
    await untilQuiet(installation, project);
  }
  await coppice.must('DELETE', `/projects/${project.id}/branches/${branch.id}`);
  await untilQuiet(installation, project);
  tell(`restores: ${took.map((ms) => ms.toFixed(0)).join(' ')} ms`);
  return took;
}
