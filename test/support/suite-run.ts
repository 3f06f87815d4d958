import { relative } from 'node:path';
import { run } from 'node:test';
import { inspect } from 'node:util';
import { endProcesses, processesRunning } from './leftovers.ts';

/** What node's test runner counts; `passed` and the like are tests, not files. */
export interface SuiteCounts {
  tests: number;
  suites: number;
  passed: number;
  failed: number;
  cancelled: number;
  skipped: number;
  todo: number;
}

export interface SuiteResult {
  readonly counts: SuiteCounts;
  /** True when every file ended well. */
  readonly success: boolean;
  readonly files: readonly { readonly path: string; readonly duration_ms: number }[];
  /** `file: test: reason` */
  readonly skips: readonly string[];
}

interface SuiteOptions {
  /** Absolute paths. */
  readonly files: readonly string[];
  readonly concurrency: number;
  readonly root: string;
  readonly print: (text: string) => void;
}

/** Longest life of one file; far above the slowest, so that only a test that hangs meets it. */
const FILE_LIMIT_MS = 10 * 60_000;
const WATCH_EVERY_MS = 5_000;
const OUTPUT_KEPT_CHARACTERS = 20_000;
const NO_COUNTS: SuiteCounts = { tests: 0, suites: 0, passed: 0, failed: 0, cancelled: 0, skipped: 0, todo: 0 };

/** What is known of a file while it runs. */
interface FileNotes {
  readonly failures: string[];
  /** Names of tests and suites that were begun and have not ended, by where they stand. */
  readonly under_way: Map<string, string>;
  output: string;
  started_ms?: number;
  /** undefined until the summary, and until the end of its process, which come in either order. */
  tests?: number;
  duration_ms?: number;
}

/** Stack lines inside Node tell nothing about a test. */
const withoutNodeStack = (text: string): string =>
  text
    .split('\n')
    .filter((line) => !/^\s+at .*\bnode:/.test(line))
    .join('\n');

function describeFailure(name: string, error: unknown): string {
  const { exitCode, signal } = error as { exitCode?: number | null; signal?: string | null };
  if (exitCode || signal) return `  not ok: ${name}: its process ended with ${signal ?? `exit code ${exitCode}`}\n`;
  const cause = error instanceof Error && error.cause !== undefined ? error.cause : error;
  // An assertion's message shows the difference already; its properties would show it again.
  const isAssertion = (cause as NodeJS.ErrnoException).code === 'ERR_ASSERTION';
  const text = isAssertion && cause instanceof Error ? (cause.stack ?? cause.message) : inspect(cause, { depth: 4 });
  return `  not ok: ${name}\n${withoutNodeStack(text).replace(/^/gm, '    ')}\n`;
}

/** The line of one file; with everything it said when it failed. */
function fileReport(name: string, { failures, output, tests = 0, duration_ms = 0 }: FileNotes): string {
  const line = `${failures.length === 0 ? 'ok    ' : 'FAILED'} ${name} (${tests} tests, ${(duration_ms / 1000).toFixed(1)} s)\n`;
  if (failures.length === 0) return line;
  return `${line}${failures.join('')}${output === '' ? '' : `  output:\n${output.replace(/^/gm, '    ')}\n`}`;
}

type RunEvent = { type: string; data: Record<string, unknown> & { name?: string; file?: string; details?: unknown } };

/** Runs test files, each in a process of its own, and prints a line a file; a failing file shows all that it said. */
export async function runSuites({ files, concurrency, root, print }: SuiteOptions): Promise<SuiteResult> {
  const notes = new Map(
    files.map((path): [string, FileNotes] => [path, { failures: [], under_way: new Map(), output: '' }]),
  );
  const skips: string[] = [];
  let result = { counts: NO_COUNTS, success: true };

  const hear = ({ type, data }: RunEvent): void => {
    const path = data.file ?? '';
    const name = relative(root, path);
    const file = notes.get(path);
    const details = (data.details ?? {}) as { duration_ms?: number; error?: unknown; type?: string };
    if (type === 'test:summary') {
      const { counts, success } = data as unknown as { counts: SuiteCounts; success: boolean };
      if (data.file === undefined) result = { counts, success };
      else if (file) {
        file.tests = counts.tests;
        if (file.duration_ms !== undefined) print(fileReport(name, file));
      }
    } else if (!file) {
      return;
    } else if (type === 'test:stdout' || type === 'test:stderr') {
      file.output = (file.output + String(data.message)).slice(-OUTPUT_KEPT_CHARACTERS);
    } else if (type === 'test:dequeue' && data.name === path) {
      file.started_ms = performance.now();
    } else if (type === 'test:complete' && data.name === path) {
      file.duration_ms = details.duration_ms ?? 0;
      if (file.tests !== undefined) print(fileReport(name, file));
    } else if (type === 'test:dequeue') {
      file.under_way.set(`${data.line}:${data.column}`, data.name ?? '');
    } else if (type === 'test:complete') {
      file.under_way.delete(`${data.line}:${data.column}`);
    } else if (type === 'test:fail' && details.type !== 'suite') {
      file.failures.push(describeFailure(data.name ?? '', details.error));
      // The file itself failed: it threw outside a test, or its process ended badly, and no summary follows.
      if (data.name === path) print(fileReport(name, file));
    } else if (type === 'test:pass' && data.skip !== undefined && details.type !== 'suite') {
      skips.push(`${name}: ${data.name}: ${data.skip === true ? 'no reason given' : data.skip}`);
    }
  };

  // The runner's own limit holds for each test alone; a file that does not end afterwards would be waited for without end.
  const watchdog = setInterval(() => {
    for (const [path, { started_ms, duration_ms, under_way }] of notes) {
      if (started_ms === undefined || duration_ms !== undefined) continue;
      if (performance.now() - started_ms < FILE_LIMIT_MS) continue;
      const where = [...under_way.values()].join(': ') || 'no test of it';
      print(`${relative(root, path)} has run for ${FILE_LIMIT_MS / 60_000} minutes and is ended in: ${where}\n`);
      endProcesses(processesRunning(path));
    }
  }, WATCH_EVERY_MS);
  try {
    if (files.length > 0) for await (const event of run({ files: [...files], concurrency })) hear(event as RunEvent);
  } finally {
    clearInterval(watchdog);
  }
  const durations = [...notes].map(([path, { duration_ms = 0 }]) => ({ path: relative(root, path), duration_ms }));
  return { ...result, files: durations, skips };
}
