import { execFile, execFileSync } from 'node:child_process';
import { promisify } from 'node:util';

const execute = promisify(execFile);

/** Longest life of one program; far above the slowest, so that only one that hangs meets it. */
const PROGRAM_TIMEOUT_MS = 120_000;

/** What a program prints at once, without its last newline; undefined when it is not there or fails. */
export function printed(file: string, ...words: string[]): string | undefined {
  try {
    return execFileSync(file, words, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }).trim();
  } catch {
    return undefined;
  }
}

/** Runs a program to its end; rejects with all that it said when it fails. */
export async function runProgram(file: string, ...words: string[]): Promise<{ stdout: string; stderr: string }> {
  return execute(file, words, { timeout: PROGRAM_TIMEOUT_MS, maxBuffer: 16 * 1024 * 1024 });
}
