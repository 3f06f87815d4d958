import { spawnSync } from 'node:child_process';
import { chmodSync, globSync, mkdtempSync, rmSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { endProcesses, findLeftovers, mountsBelow, processesUsing } from './support/leftovers.ts';
import { runSuites, type SuiteCounts, type SuiteResult } from './support/suite-run.ts';

/**
 * What `npm test` runs: types, lint, then every suite, and last a look at what was left behind.
 * `npm test -- <pattern>...` runs only the files whose path holds one of the patterns.
 */

const root = join(import.meta.dirname, '..');
/** These start no servers; the rest do, and share the machine between few at a time. */
const LIGHT_DIRECTORIES = ['test/tidy/', 'test/unit/'];
/** What is known of Postgres is tried on servers. */
const SERVER_TESTS = 'test/unit/postgres-';
const HEAVY_CONCURRENCY = 2;
const SLOWEST_SHOWN = 8;

const print = (text: string): void => void process.stdout.write(text.endsWith('\n') ? text : `${text}\n`);

/** Settings of the person who runs the tests must not steer what is tested. */
function cleanEnvironment(directory: string): void {
  for (const name of Object.keys(process.env)) {
    if (/^(PG|NEON_|COPPICE_(?!TEST_))/.test(name)) delete process.env[name];
  }
  process.env.TMPDIR = directory;
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

function testFiles(patterns: readonly string[]): { light: string[]; heavy: string[] } {
  const names = globSync('test/**/*.test.ts', { cwd: root })
    .filter((name) => patterns.length === 0 || patterns.some((pattern) => name.includes(pattern)))
    .sort();
  const isLight = (name: string): boolean =>
    LIGHT_DIRECTORIES.some((directory) => name.startsWith(directory)) && !name.startsWith(SERVER_TESTS);
  return {
    light: names.filter(isLight).map((name) => join(root, name)),
    heavy: names.filter((name) => !isLight(name)).map((name) => join(root, name)),
  };
}

/** Ends what is still there and removes the directory, unless something is mounted below it. */
function sweep(directory: string): void {
  endProcesses(processesUsing(directory));
  for (const path of mountsBelow(directory)) spawnSync('umount', [path], { stdio: 'inherit' });
  if (mountsBelow(directory).length === 0) rmSync(directory, { recursive: true, force: true });
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
  const started = performance.now();
  const files = testFiles(patterns);
  if (files.light.length + files.heavy.length === 0) {
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
  process.once('SIGINT', () => {
    sweep(directory);
    process.exit(130);
  });
  const results = [
    await runSuites({ files: files.light, concurrency: availableParallelism(), root, print }),
    await runSuites({ files: files.heavy, concurrency: HEAVY_CONCURRENCY, root, print }),
  ];
  if (results.some(({ success }) => !success)) problems.push('tests');

  const leftovers = await findLeftovers(directory);
  sweep(directory);
  if (leftovers.length > 0) problems.push(`left behind by tests:\n  ${leftovers.join('\n  ')}`);

  const skips = results.flatMap((result) => result.skips);
  for (const skip of skips) print(`skipped: ${skip}`);
  if (skips.length > 0 && process.env.COPPICE_TEST_FORBID_SKIPS === '1')
    problems.push('skips, which are forbidden here');

  printSlowest(results);
  print(problems.length === 0 ? '\nall well' : `\nFAILED: ${problems.join(', ')}`);
  printSummary(results, performance.now() - started);
  return problems.length === 0 ? 0 : 1;
}

process.exitCode = await main(process.argv.slice(2));
