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
  /** What it prints; rejects with its `stderr` when it ends with an error. */
  run(...words: string[]): Promise<string>;
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
  };
  return {
    run: async (...words) => {
      // Where DNS does not answer it would wait for its analytics.
      const { stdout } = await execute(NEONCTL, [...words, '--no-analytics', '--config-dir', home], { cwd: home, env });
      return stdout;
    },
    remove: () => rm(home, { recursive: true, force: true }),
  };
}
