import { storageOf } from '../src/main/parts.ts';
import { seededRandom } from '../test/support/random.ts';
import { absoluteFigure, type Figure, percentile } from './figure.ts';
import { firstRow } from './first-row.ts';
import {
  createProject,
  type Installation,
  type Project,
  putToSleep,
  startInstallation,
  usedBytes,
} from './installation.ts';
import type { MeasureOptions } from './section.ts';

const PROJECTS = 200;
const QUICK_PROJECTS = 12;
const AT_ONCE = 4;
const MB = 1024 ** 2;

/** Many projects on one machine: made, put to sleep, weighed, and woken one after the other in random order. */
export async function measure(options: MeasureOptions): Promise<Figure[]> {
  const count = options.rounds ?? (options.quick ? QUICK_PROJECTS : PROJECTS);
  options.tell(`making ${count} projects, seed ${options.seed}`);
  await using installation = await startInstallation(options, { pool_gib: options.quick ? 4 : 12 });
  const failures: string[] = [];
  const used_before = await usedBytes(installation.pool);
  const projects = await makeSleeping(installation, count, options, failures);
  const grown = ((await usedBytes(installation.pool)) - used_before) / MB / projects.length;
  const unshared = await unsharedMegabytes(installation);
  const took: number[] = [];
  for (const project of shuffled(projects, options.seed)) {
    options.signal.throwIfAborted();
    try {
      took.push(await firstRow(project));
    } catch (error) {
      failures.push(`${project.id}: ${(error as Error).message}`);
    }
    if (took.length % Math.ceil(count / 5) === 0) options.tell(`${took.length} awake`);
  }
  for (const failure of failures.slice(0, 10)) options.tell(failure);
  const what = `${count} projects`;
  const wake = `${what} woken in random order, the woken ones staying awake`;
  return [
    absoluteFigure({
      ...{
        what: `${what} made, put to sleep and woken: failures`,
        unit: 'failures',
        ours: [failures.length],
        at_most: 0,
      },
    }),
    absoluteFigure({
      ...{ what: `${what} asleep, unshared disk of the largest`, unit: 'MB', ours: unshared, share: 1, at_most: 8 },
      peer_is: `the median is ${percentile(unshared, 0.5).toFixed(1)} MB`,
    }),
    absoluteFigure({ what: `${what} asleep, what the pool has grown for each`, unit: 'MB', ours: [grown] }),
    absoluteFigure({ what: `${wake}, p50`, unit: 'ms', ours: took }),
    absoluteFigure({ what: `${wake}, p99`, unit: 'ms', ours: took, share: 0.99 }),
  ];
}

async function makeSleeping(
  installation: Installation,
  count: number,
  { signal, tell }: MeasureOptions,
  failures: string[],
): Promise<Project[]> {
  const made: Project[] = [];
  let begun = 0;
  const work = async () => {
    while (begun < count && !signal.aborted) {
      begun += 1;
      try {
        const project = await createProject(installation);
        await putToSleep(installation, project);
        made.push(project);
        if (made.length % Math.ceil(count / 5) === 0) tell(`${made.length} made and asleep`);
      } catch (error) {
        failures.push((error as Error).message.split('\n', 1)[0]!);
      }
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  signal.throwIfAborted();
  return made;
}

/** What each project's volume shares with no other, in MB, as the storage driver measures it. */
async function unsharedMegabytes({ coppice, data_directory }: Installation): Promise<number[]> {
  const { driver } = await storageOf(data_directory, { storage: 'auto' });
  const { rows } = await coppice.ownDatabase('select volume from coppice.timelines where deleted_at is null');
  const sizes: number[] = [];
  for (const { volume } of rows) {
    const { unshared_bytes } = await driver.measure(volume);
    if (unshared_bytes === undefined) throw new Error(`${driver.name} cannot tell what a volume shares`);
    sizes.push(unshared_bytes / MB);
  }
  return sizes;
}

/** Fisher and Yates. */
function shuffled<T>(items: readonly T[], seed: number): T[] {
  const random = seededRandom(seed);
  const order = [...items];
  for (let last = order.length - 1; last > 0; last -= 1) {
    const other = Math.floor(random() * (last + 1));
    [order[last], order[other]] = [order[other]!, order[last]!];
  }
  return order;
}
