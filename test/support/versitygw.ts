import { execFile } from 'node:child_process';
import { existsSync, statSync } from 'node:fs';
import { mkdir, rm, writeFile } from 'node:fs/promises';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';

const run = promisify(execFile);
const VERSION = '1.7.0';
/** It outlives a checkout, since the build takes minutes. */
const CACHE = join(process.env.XDG_CACHE_HOME || join(homedir(), '.cache'), 'coppice', `versitygw-${VERSION}`);
const BUILD_MAX_MS = 600_000;
/** After one that failed, the next is tried after so long. */
const FAILED_FOR_MS = 3_600_000;

/**
 * The program of an S3 server on plain files, built where there is Go. Undefined, with a line that says so, where it
 * cannot be had: what needs it is then not declared.
 */
export async function versitygw(): Promise<string | undefined> {
  const program = join(CACHE, 'versitygw');
  if (existsSync(program)) return program;
  const failed = join(CACHE, 'failed');
  try {
    if (Date.now() - (statSync(failed, { throwIfNoEntry: false })?.mtimeMs ?? 0) < FAILED_FOR_MS) {
      throw new Error('its build failed before');
    }
    await mkdir(CACHE, { recursive: true });
    await build();
    return program;
  } catch (error) {
    const [reason] = (error as Error).message.split('\n');
    process.stderr.write(`S3 is not tested: versitygw ${VERSION} cannot be built here (${reason})\n`);
    if (existsSync(CACHE) && !existsSync(failed)) await writeFile(failed, `${(error as Error).message}\n`);
    return undefined;
  }
}

/** One at a time, whoever asks; the last step gives the program its name. */
async function build(): Promise<void> {
  const script = [
    'test -x "$CACHE/versitygw" && exit 0',
    `GOBIN="$CACHE/bin" go install -ldflags='-s -w' github.com/versity/versitygw/cmd/versitygw@v${VERSION}`,
    'mv "$CACHE/bin/versitygw" "$CACHE/versitygw"',
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
