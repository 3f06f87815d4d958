import { spawnSync } from 'node:child_process';
import { chmodSync, globSync, mkdtempSync, rmSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { removeDataDirectory, startCoppice } from './support/coppice.ts';
import { cannotMount, mountFilesystem, type TestFilesystem } from './support/filesystem.ts';
import { endProcesses, findLeftovers, loopDevicesOver, mountsBelow, processesUsing } from './support/leftovers.ts';
import { offerStartedDirectory, withdrawStartedDirectory } from './support/started-directory.ts';
import { runSuites, type SuiteCounts, type SuiteResult } from './support/suite-run.ts';

/**
 * What `npm test` runs: types, lint, then every suite, and last a look at what was left behind.
 * `npm test -- <pattern>...` runs only the files whose path holds one of the patterns.
 */

const root = join(import.meta.dirname, '..');
/** These start no servers; the rest do, and share the machine between few at a time. */
const LIGHT_DIRECTORIES = ['test/tidy/', 'test/unit/'];
/**
 * These make databases and branches by the hundred, which are full copies on the file system that temporary directories mostly
 * lie on. Where that can be mounted they are on one where copies share their blocks; the others have them copied.
 */
const SHARING_DIRECTORIES = [
  'test/api/',
  'test/clients/',
  'test/engine/',
  'test/fault/',
  'test/gateway/',
  'test/store/',
];
const SHARING_BYTES = 64 * 1024 ** 3;
/** What is known of Postgres is tried on servers. */
const SERVER_TESTS = 'test/unit/postgres-';
/** More than there are cores may pay where the files mostly wait. */
const HEAVY_CONCURRENCY = Number(process.env.COPPICE_TEST_CONCURRENCY ?? 2);
/** Begun first, the slowest before the others, so that no long one is left alone at the end. */
const SLOWEST_FIRST = [
  'test/fault/kill-in-operation',
  'test/engine/restore',
  'test/clients/schema',
  'test/engine/api-snapshots',
  'test/engine/snapshots',
  'test/engine/branches',
  'test/engine/archive',
  'test/engine/random-history',
  'test/engine/full-pool',
  'test/engine/hung-compute',
  'test/fault/archive',
  'test/fault/start-refusals',
  'test/clients/command-line',
  'test/fault/anonymized-branches',
  'test/engine/metering',
  'test/api/neonctl',
  'test/api/client-surface',
  'test/api/neonctl-output',
  'test/engine/restarts',
  'test/engine/replicas',
  'test/engine/time-travel',
  'test/contract/wal-reader',
  'test/unit/postgres-backup',
];
const SLOWEST_SHOWN = 8;
const SWEEP_PATIENCE_MS = 10_000;
const SWEEP_PAUSE_MS = 50;
/** Below the directory of the run: what Node has made of our modules, which hundreds of processes read. */
const COMPILE_CACHE = 'compiled';
/** For fewer it does not pay to prepare a data directory. */
const STARTED_FROM_FILES = 3;

const print = (text: string): void => void process.stdout.write(text.endsWith('\n') ? text : `${text}\n`);

/** Settings of the person who runs the tests must not steer what is tested. */
function cleanEnvironment(directory: string): void {
  for (const name of Object.keys(process.env)) {
    if (/^(PG|NEON_|COPPICE_(?!TEST_))/.test(name)) delete process.env[name];
  }
  process.env.TMPDIR = directory;
  process.env.NODE_COMPILE_CACHE = join(directory, COMPILE_CACHE);
}

/** Short, since socket paths end at 107 bytes, and open to be walked through by the users that servers run under. */
function makeDirectory(): string {
  const directory = mkdtempSync('/tmp/cp-');
  chmodSync(directory, 0o711);
  return directory;
}

function runTool(title: string, command: string, words: string[]): boolean {
  const started = performance.now();
  const { status } = spawnSync(command, words, { cwd: root, stdio: 'inherit' });
  print(`${status === 0 ? 'ok    ' : 'FAILED'} ${title} (${((performance.now() - started) / 1000).toFixed(1)} s)`);
  return status === 0;
}

/** What is not on the list comes last: the index of -1 becomes the largest there is. */
const rank = (name: string): number => SLOWEST_FIRST.findIndex((start) => name === `${start}.test.ts`) >>> 0;

function testFiles(patterns: readonly string[]): { light: string[]; heavy: string[]; sharing: string[] } {
  const names = globSync('test/**/*.test.ts', { cwd: root })
    .filter((name) => patterns.length === 0 || patterns.some((pattern) => name.includes(pattern)))
    .sort((a, b) => rank(a) - rank(b) || (a < b ? -1 : 1));
  const groupOf = (name: string): 'light' | 'heavy' | 'sharing' => {
    const isIn = (directories: readonly string[]) => directories.some((directory) => name.startsWith(directory));
    if (isIn(LIGHT_DIRECTORIES) && !name.startsWith(SERVER_TESTS)) return 'light';
    return isIn(SHARING_DIRECTORIES) ? 'sharing' : 'heavy';
  };
  const { light = [], heavy = [], sharing = [] } = Object.groupBy(names, groupOf);
  const paths = (group: readonly string[]) => group.map((name) => join(root, name));
  return { light: paths(light), heavy: paths(heavy), sharing: paths(sharing) };
}

/** What a Coppice leaves that was started once, for tests to begin with. Without it they make their own. */
async function prepareStartedDirectory(): Promise<string | undefined> {
  try {
    const coppice = await startCoppice();
    await coppice.stop();
    offerStartedDirectory(coppice.data_directory);
    return coppice.data_directory;
  } catch (error) {
    print(`no data directory was prepared for tests: ${(error as Error).message}`);
    return undefined;
  }
}

/** Runs files that start servers, which begin with what one Coppice left that was started for all of them. */
async function runHeavy(files: readonly string[]): Promise<SuiteResult> {
  const started = files.length > STARTED_FROM_FILES ? await prepareStartedDirectory() : undefined;
  try {
    return await runSuites({ files, concurrency: HEAVY_CONCURRENCY, root, print });
  } finally {
    withdrawStartedDirectory();
    if (started) await removeDataDirectory(started);
  }
}

async function mountSharing(place: string): Promise<TestFilesystem | undefined> {
  if (cannotMount) return undefined;
  try {
    return await mountFilesystem('xfs', SHARING_BYTES, place);
  } catch (error) {
    print(`branches of the tests are full copies: ${(error as Error).message}`);
    return undefined;
  }
}

/** Runs them below the directory where copies share their blocks. Tells what they left there. */
async function runSharing(
  directory: string,
  files: readonly string[],
): Promise<{ result: SuiteResult; leftovers: readonly string[] }> {
  // Its name stands in the paths of sockets.
  const place = join(directory, 'x');
  const filesystem = files.length > 0 ? await mountSharing(place) : undefined;
  if (!filesystem) return { result: await runHeavy(files), leftovers: [] };
  process.env.TMPDIR = place;
  try {
    const result = await runHeavy(files);
    return { result, leftovers: await findLeftovers(place) };
  } finally {
    process.env.TMPDIR = directory;
    sweep(place, { keep: true });
    await filesystem.remove();
    rmSync(place, { recursive: true, force: true });
  }
}

/**
 * Ends what is still there and removes the directory, unless something stays mounted below it. What was ended lets go of its
 * files a moment later, so this is tried again for a while; without a turn of the event loop, in which more would be started.
 */
function sweep(directory: string, { keep = false } = {}): void {
  const deadline = Date.now() + SWEEP_PATIENCE_MS;
  for (let last = false; ; last = Date.now() > deadline) {
    const [processes, mounts] = [processesUsing(directory), mountsBelow(directory)];
    endProcesses(processes);
    // Why not is worth a word only when there is no further attempt.
    for (const path of mounts) spawnSync('umount', [path], { stdio: last ? 'inherit' : 'ignore' });
    for (const device of loopDevicesOver(directory)) spawnSync('losetup', ['--detach', device]);
    if (last || processes.length + mounts.length === 0) break;
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, SWEEP_PAUSE_MS);
  }
  if (!keep && mountsBelow(directory).length === 0) rmSync(directory, { recursive: true, force: true });
}

/** The runner's own closing lines, for all suites together. */
function printSummary(results: readonly SuiteResult[], duration_ms: number): void {
  const total = (name: keyof SuiteCounts): number => results.reduce((sum, { counts }) => sum + counts[name], 0);
  const lines = [
    `# tests ${total('tests')}`,
    `# suites ${total('suites')}`,
    `# pass ${total('passed')}`,
    `# fail ${total('failed')}`,
    `# cancelled ${total('cancelled')}`,
    `# skipped ${total('skipped')}`,
    `# todo ${total('todo')}`,
    `# duration_ms ${Math.round(duration_ms)}`,
  ];
  print(lines.join('\n'));
}

function printSlowest(results: readonly SuiteResult[]): void {
  const slowest = results
    .flatMap(({ files }) => files)
    .sort((a, b) => b.duration_ms - a.duration_ms)
    .slice(0, SLOWEST_SHOWN);
  print('\nslowest files:');
  for (const { path, duration_ms } of slowest) print(`  ${(duration_ms / 1000).toFixed(1).padStart(6)} s  ${path}`);
}

async function main(patterns: readonly string[]): Promise<number> {
  const began = performance.now();
  const files = testFiles(patterns);
  if (Object.values(files).flat().length === 0) {
    print(`no test file's path holds ${patterns.map((pattern) => `"${pattern}"`).join(' or ')}`);
    return 1;
  }
  const problems: string[] = [];
  if (patterns.length === 0) {
    if (!runTool('types', 'tsc', ['--noEmit'])) problems.push('types');
    if (!runTool('lint', 'biome', ['ci', '.'])) problems.push('lint');
  }

  const directory = makeDirectory();
  cleanEnvironment(directory);
  for (const [signal, code] of [
    ['SIGINT', 130],
    ['SIGTERM', 143],
  ] as const) {
    process.once(signal, () => {
      sweep(directory);
      process.exit(code);
    });
  }
  const light = await runSuites({ files: files.light, concurrency: availableParallelism(), root, print });
  const heavy = await runHeavy(files.heavy);
  const sharing = await runSharing(directory, files.sharing);
  const results = [light, heavy, sharing.result];
  if (results.some(({ success }) => !success)) problems.push('tests');

  rmSync(join(directory, COMPILE_CACHE), { recursive: true, force: true });
  const leftovers = [...sharing.leftovers, ...(await findLeftovers(directory))];
  sweep(directory);
  if (leftovers.length > 0) problems.push(`left behind by tests:\n  ${leftovers.join('\n  ')}`);

  const skips = results.flatMap((result) => result.skips);
  for (const skip of skips) print(`skipped: ${skip}`);
  if (skips.length > 0 && process.env.COPPICE_TEST_FORBID_SKIPS === '1')
    problems.push('skips, which are forbidden here');

  printSlowest(results);
  print(problems.length === 0 ? '\nall well' : `\nFAILED: ${problems.join(', ')}`);
  printSummary(results, performance.now() - began);
  return problems.length === 0 ? 0 : 1;
}

process.exitCode = await main(process.argv.slice(2));
