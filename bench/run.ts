import { mkdir, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { inspect, parseArgs } from 'node:util';
import { type Figure, formatFigures } from './figure.ts';
import { BUSY_PERCENT_MAX, busyPercent, describeMachine, formatMachine } from './machine.ts';
import type { MeasureOptions, Section } from './section.ts';

/** In the order in which they run. */
const SECTIONS: Readonly<Record<string, () => Promise<Section>>> = {
  wake: () => import('./wake.ts'),
  branch: () => import('./branch.ts'),
  create: () => import('./create.ts'),
  direct: () => import('./direct.ts'),
  copy: () => import('./copy.ts'),
  pooled: () => import('./pooled.ts'),
  crowded: () => import('./crowded.ts'),
  logins: () => import('./logins.ts'),
  'idle-clients': () => import('./idle-clients.ts'),
  storm: () => import('./storm.ts'),
  http: () => import('./http.ts'),
  api: () => import('./api.ts'),
  idle: () => import('./idle.ts'),
  many: () => import('./many.ts'),
  history: () => import('./history.ts'),
};

/** One name for several. */
const GROUPS: Readonly<Record<string, readonly string[]>> = {
  gateway: ['direct', 'copy', 'pooled', 'crowded', 'logins', 'idle-clients', 'storm', 'http'],
};

const USAGE = `npm run bench -- [${[...Object.keys(SECTIONS), ...Object.keys(GROUPS)].join('|')}]... [--rounds N] [--seconds N] [--json file] [--quick] [--filesystem xfs|btrfs] [--seed N] [--set COPPICE_NAME=value]...`;
const ROUNDS_MIN = 7;
const FAILURE_CHARACTERS = 5000;
const FAILURE_LINE_CHARACTERS = 300;

interface Wanted {
  readonly names: readonly string[];
  readonly rounds?: number;
  readonly seconds?: number;
  readonly json?: string;
  readonly quick: boolean;
  readonly filesystem: 'xfs' | 'btrfs';
  readonly seed: number;
  readonly settings: Readonly<Record<string, string>>;
}

interface Failure {
  readonly section: string;
  readonly message: string;
}

function readArguments(): Wanted {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      rounds: { type: 'string' },
      seconds: { type: 'string' },
      json: { type: 'string' },
      quick: { type: 'boolean', default: false },
      filesystem: { type: 'string', default: 'xfs' },
      seed: { type: 'string' },
      set: { type: 'string', multiple: true, default: [] },
    },
  });
  const names = new Set(positionals.flatMap((name) => GROUPS[name] ?? name));
  const unknown = [...names].filter((name) => !(name in SECTIONS));
  if (unknown.length > 0) throw new Error(`there is no section ${unknown.join(', ')}`);
  const rounds = values.rounds === undefined ? undefined : Number(values.rounds);
  if (rounds !== undefined && !(Number.isInteger(rounds) && rounds > 0)) throw new Error('--rounds takes a number');
  const seconds = values.seconds === undefined ? undefined : Number(values.seconds);
  if (seconds !== undefined && !(Number.isInteger(seconds) && seconds > 0)) throw new Error('--seconds takes a number');
  if (rounds !== undefined && rounds < ROUNDS_MIN && !values.quick) {
    throw new Error(`a figure is the median of at least ${ROUNDS_MIN} rounds; fewer only with --quick`);
  }
  return {
    names: names.size > 0 ? [...names] : Object.keys(SECTIONS),
    rounds,
    seconds,
    json: values.json,
    quick: values.quick,
    filesystem: readFilesystem(values.filesystem),
    settings: readSettings(values.set),
    seed: values.seed === undefined ? Math.floor(Math.random() * 2 ** 32) : Number(values.seed),
  };
}

function readFilesystem(name: string): 'xfs' | 'btrfs' {
  if (name === 'xfs' || name === 'btrfs') return name;
  throw new Error('--filesystem takes xfs or btrfs');
}

function readSettings(given: readonly string[]): Record<string, string> {
  const pairs = given.map((text) => /^(COPPICE_[A-Z_]+)=(.*)$/.exec(text) ?? []);
  if (pairs.some(([all]) => all === undefined)) throw new Error('--set takes COPPICE_NAME=value');
  return Object.fromEntries(pairs.map(([, name, value]) => [name, value]));
}

/** The first interrupt lets the section at work clean up after itself, which takes seconds; the second one does not. */
function listenForInterrupts(): AbortSignal {
  const controller = new AbortController();
  for (const name of ['SIGINT', 'SIGTERM'] as const) {
    process.once(name, () => {
      process.stderr.write(`\n${name}: cleaning up\n`);
      controller.abort(new Error(`stopped by ${name}`));
    });
  }
  return controller.signal;
}

interface Measured {
  readonly figures: readonly Figure[];
  readonly failures: readonly Failure[];
  /** By section: what others used of the processors just before it, in percent. */
  readonly busy_percent: Readonly<Record<string, number>>;
}

async function measureAll({ names, ...wanted }: Wanted): Promise<Measured> {
  const figures: Figure[] = [];
  const busy_percent: Record<string, number> = {};
  const failures: Failure[] = [];
  const signal = listenForInterrupts();
  for (const name of names) {
    if (signal.aborted) break;
    busy_percent[name] = await busyPercent();
    const began = performance.now();
    const tell = (text: string) =>
      process.stderr.write(`${name} ${((performance.now() - began) / 1000).toFixed(0).padStart(4)} s  ${text}\n`);
    const options: MeasureOptions = { ...wanted, signal, tell };
    try {
      const section = await SECTIONS[name]!();
      for await (const figure of await section.measure(options)) {
        figures.push(figure);
        process.stderr.write(`${formatFigures([figure])}\n`);
      }
    } catch (error) {
      tell(inspect(error).slice(0, FAILURE_CHARACTERS));
      const first = firstCause(error);
      const message = first instanceof Error ? first.message : String(first);
      // An error may carry the whole log of a process.
      failures.push({ section: name, message: message.split('\n', 1)[0]!.slice(0, FAILURE_LINE_CHARACTERS) });
    }
  }
  return { figures, failures, busy_percent };
}

/** What went wrong before cleaning up went wrong, too. */
const firstCause = (error: unknown): unknown =>
  error instanceof SuppressedError ? firstCause(error.suppressed) : error;

function warnings({ quick }: Wanted, { busy_percent, failures }: Measured): string[] {
  const busy = Object.entries(busy_percent).filter(([, percent]) => percent > BUSY_PERCENT_MAX);
  const described = busy.map(([name, percent]) => `${percent} % before ${name}`).join(', ');
  return [
    ...(quick ? ['Quick: too few rounds and too little data for figures that mean anything.'] : []),
    ...(busy.length > 0 ? [`Something else used the processors (${described}): not to be published.`] : []),
    ...failures.map(({ section, message }) => `Section ${section} failed: ${message}`),
  ];
}

async function main(): Promise<void> {
  const wanted = readArguments();
  const command = ['npm run bench', ...(process.argv.length > 2 ? ['--', ...process.argv.slice(2)] : [])].join(' ');
  process.stderr.write('Nothing else may run on this machine meanwhile.\n');
  const machine = await describeMachine();
  const date = new Date().toISOString();
  const measured = await measureAll(wanted);
  const { figures, failures } = measured;
  const lines = [
    `${date.slice(0, 10)}, ${formatMachine(machine)}. \`${command}\`, seed ${wanted.seed}, commit ${machine.commit ?? 'unknown'}.`,
    ...warnings(wanted, measured),
  ];
  process.stdout.write(`${lines.join('\n')}\n\n${formatFigures(figures)}\n`);
  const file = wanted.json ?? join(import.meta.dirname, 'results', `${date.replaceAll(':', '-').slice(0, 19)}.json`);
  await mkdir(dirname(file), { recursive: true });
  const { quick, seed } = wanted;
  await writeFile(file, `${JSON.stringify({ date, command, quick, seed, machine, ...measured }, null, 2)}\n`);
  process.stderr.write(`Written to ${file}.\n`);
  if (failures.length > 0) process.exitCode = 1;
}

await main().catch((error: Error) => {
  process.stderr.write(`${error.message}\n${USAGE}\n`);
  process.exitCode = 2;
});
