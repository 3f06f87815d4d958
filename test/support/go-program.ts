import { execFile } from 'node:child_process';
import { existsSync, statSync } from 'node:fs';
import { mkdir, rm, writeFile } from 'node:fs/promises';
import { homedir } from 'node:os';
import { basename, join } from 'node:path';
import { promisify } from 'node:util';

const run = promisify(execFile);
const BUILD_MAX_MS = 600_000;
/** After one that failed, the next is tried after so long. */
const FAILED_FOR_MS = 3_600_000;

export interface GoProgram {
  /** The package of its main function; the program is named as its last part. */
  readonly package: string;
  readonly version: string;
  /** What is not tested without it, as the beginning of a sentence. */
  readonly for: string;
}

/**
 * A program that is built where there is Go, outside the checkout, since that takes minutes. Undefined, with a line that says
 * so, where it cannot be had: what needs it is then not declared.
 */
export async function goProgram({ package: path, version, for: purpose }: GoProgram): Promise<string | undefined> {
  const name = basename(path);
  const cache = join(process.env.XDG_CACHE_HOME || join(homedir(), '.cache'), 'coppice', `${name}-${version}`);
  const program = join(cache, name);
  if (existsSync(program)) return program;
  const failed = join(cache, 'failed');
  try {
    if (Date.now() - (statSync(failed, { throwIfNoEntry: false })?.mtimeMs ?? 0) < FAILED_FOR_MS) {
      throw new Error('its build failed before');
    }
    await mkdir(cache, { recursive: true });
    await build(cache, { name, source: `${path}@v${version}` });
    return program;
  } catch (error) {
    const [reason] = (error as Error).message.split('\n');
    process.stderr.write(`${purpose} is not tested: ${name} ${version} cannot be built here (${reason})\n`);
    if (existsSync(cache) && !existsSync(failed)) await writeFile(failed, `${(error as Error).message}\n`);
    return undefined;
  }
}

/** One at a time, whoever asks; the last step gives the program its name. */
async function build(CACHE: string, { name, source }: { name: string; source: string }): Promise<void> {
  const script = [
    `test -x "$CACHE/${name}" && exit 0`,
    `GOBIN="$CACHE/bin" go install -ldflags='-s -w' ${source}`,
    `mv "$CACHE/bin/${name}" "$CACHE/${name}"`,
  ].join('\n');
  const PATH = `${process.env.PATH}:/usr/local/go/bin`;
  // Nothing of the build, not even of one that was ended, is to lie where the tests' own files do.
  const TMPDIR = join(CACHE, 'tmp');
  await mkdir(TMPDIR, { recursive: true });
  await run('which', ['go'], { env: { PATH } }).catch(() => {
    throw new Error('there is no Go');
  });
  try {
    await run('flock', [join(CACHE, 'lock'), 'timeout', String(BUILD_MAX_MS / 1000), 'sh', '-e', '-c', script], {
      env: { ...process.env, PATH, CACHE, TMPDIR, GOTOOLCHAIN: 'local' },
      timeout: BUILD_MAX_MS + 30_000,
    });
  } finally {
    await rm(TMPDIR, { recursive: true, force: true });
  }
}
