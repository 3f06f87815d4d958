import { relative } from 'node:path';
import { run } from 'node:test';
import { inspect } from 'node:util';

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
const FILE_TIMEOUT_MS = 8 * 60_000;
const OUTPUT_KEPT_CHARACTERS = 20_000;
const NO_COUNTS: SuiteCounts = { tests: 0, suites: 0, passed: 0, failed: 0, cancelled: 0, skipped: 0, todo: 0 };

/** What is known of a file while it runs. */
interface FileNotes {
  readonly failures: string[];
  output: string;
  /** undefined until the summary, and until the end of its process, which come in either order. */
  tests?: number;
  duration_ms?: number;
}

function describeFailure(name: string, error: unknown): string {
  const { exitCode, signal } = error as { exitCode?: number | null; signal?: string | null };
  if (exitCode || signal) return `  not ok: ${name}: its process ended with ${signal ?? `exit code ${exitCode}`}\n`;
  const cause = error instanceof Error && error.cause !== undefined ? error.cause : error;
  return `  not ok: ${name}\n${inspect(cause, { colors: false, depth: 4 }).replace(/^/gm, '    ')}\n`;
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
  const notes = new Map(files.map((path): [string, FileNotes] => [path, { failures: [], output: '' }]));
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
    } else if (type === 'test:complete' && data.name === path) {
      file.duration_ms = details.duration_ms ?? 0;
      if (file.tests !== undefined) print(fileReport(name, file));
    } else if (type === 'test:fail' && details.type !== 'suite') {
      file.failures.push(describeFailure(data.name ?? '', details.error));
      // The file itself failed: it threw outside a test, or its process ended badly, and no summary follows.
      if (data.name === path) print(fileReport(name, file));
    } else if (type === 'test:pass' && data.skip !== undefined && details.type !== 'suite') {
      skips.push(`${name}: ${data.name}: ${data.skip === true ? 'no reason given' : data.skip}`);
    }
  };

  if (files.length > 0) {
    for await (const event of run({ files: [...files], concurrency, timeout: FILE_TIMEOUT_MS }))
      hear(event as RunEvent);
  }
  const durations = [...notes].map(([path, { duration_ms = 0 }]) => ({ path: relative(root, path), duration_ms }));
  return { ...result, files: durations, skips };
}
