import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { tmpdir } from 'node:os';
import { fileURLToPath } from 'node:url';

const COPPICE = fileURLToPath(new URL('../../bin/coppice.ts', import.meta.url));

export interface Ended {
  /** Null when it was killed. */
  readonly code: number | null;
  readonly out: string;
  readonly err: string;
}

type Environment = Readonly<Record<string, string>>;

/** Begins a command of Coppice on a data directory. */
export function beginCommand(
  data_directory: string,
  args: readonly string[],
  env: Environment = {},
): { child: ChildProcess; ended: Promise<Ended> } {
  const child = spawn(process.execPath, [COPPICE, ...args], {
    env: { PATH: process.env.PATH, HOME: process.env.HOME, TMPDIR: tmpdir(), COPPICE_DATA_DIR: data_directory, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let [out, err] = ['', ''];
  child.stdout.setEncoding('utf8').on('data', (chunk) => (out += chunk));
  child.stderr.setEncoding('utf8').on('data', (chunk) => (err += chunk));
  return { child, ended: once(child, 'close').then(([code]) => ({ code, out, err })) };
}

export const runCommand = (data_directory: string, args: readonly string[], env?: Environment): Promise<Ended> =>
  beginCommand(data_directory, args, env).ended;

/** Runs a command that must succeed; returns what it prints. */
export async function mustRun(data_directory: string, args: readonly string[], env?: Environment): Promise<string> {
  const { code, out, err } = await runCommand(data_directory, args, env);
  assert.equal(code, 0, `${args.join(' ')}: ${out}${err}`);
  return out;
}

/** Runs a command that must fail with a sentence for people; returns that. */
export async function mustFail(data_directory: string, args: readonly string[], env?: Environment): Promise<string> {
  const { code, out, err } = await runCommand(data_directory, args, env);
  assert.equal(code, 1, `${args.join(' ')}: ${out}${err}`);
  assert.doesNotMatch(err, /\n {4}at /, 'no stack');
  return err;
}
