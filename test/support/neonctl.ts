import { execFile } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const execute = promisify(execFile);
const NEONCTL = fileURLToPath(new URL('../../node_modules/.bin/neonctl', import.meta.url));

/** The public command-line client, unmodified, with a home of its own, where it remembers its project. */
export interface Neonctl {
  /** Where it runs. */
  readonly home: string;
  /** What it prints; rejects with its `stderr` when it ends with an error. */
  run(...words: string[]): Promise<string>;
  /** The same, with all that it says, however it ends. */
  transcript(...words: string[]): Promise<string>;
  remove(): Promise<void>;
}

export async function openNeonctl({ api_port, key }: { api_port: number; key: string }): Promise<Neonctl> {
  const home = await mkdtemp(join(tmpdir(), 'neonctl-'));
  const env = {
    PATH: process.env.PATH,
    HOME: home,
    NODE_COMPILE_CACHE: process.env.NODE_COMPILE_CACHE,
    CI: 'true',
    NEON_API_KEY: key,
    // Not "localhost", which may mean ::1 first.
    NEON_API_HOST: `http://127.0.0.1:${api_port}/api/v2`,
    // Its tables are as wide as what they hold.
    COLUMNS: '300',
  };
  // Where DNS does not answer it would wait for its analytics.
  const own = ['--no-analytics', '--config-dir', home];
  const start = (words: readonly string[]) => {
    // What stands behind `--` is for another program.
    const end = words.includes('--') ? words.indexOf('--') : words.length;
    return execute(NEONCTL, [...words.slice(0, end), ...own, ...words.slice(end)], { cwd: home, env });
  };
  return {
    home,
    run: async (...words) => (await start(words)).stdout,
    transcript: (...words) =>
      start(words).then(
        ({ stdout, stderr }) => stdout + stderr,
        ({ code, stdout, stderr }) => `${stdout}${stderr}ended with ${code}\n`,
      ),
    remove: () => rm(home, { recursive: true, force: true }),
  };
}
