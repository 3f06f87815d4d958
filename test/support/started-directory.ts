import { execFile } from 'node:child_process';
import { mkdir, readdir, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';

const run = promisify(execFile);

/**
 * A data directory in which a Coppice was started once, and stopped: the first start takes several times as long as the
 * next ones, and most tests begin with one. `npm test` makes it and names it here; without it they begin with nothing.
 */
const VARIABLE = 'COPPICE_TEST_STARTED_DIRECTORY';

/** From now on tests begin with copies of this directory, which must stay as it is. */
export function offerStartedDirectory(path: string): void {
  process.env[VARIABLE] = path;
}

/** It is there no longer. */
export function withdrawStartedDirectory(): void {
  delete process.env[VARIABLE];
}

/** Makes a data directory that looks as if a Coppice had been started in it before; none where that is not offered. */
export async function copyStartedDirectory(to: string): Promise<void> {
  const from = process.env[VARIABLE];
  if (!from) return;
  const here = (await stat(from)).dev === (await stat(dirname(to))).dev;
  await mkdir(to, { mode: 0o711 });
  for (const name of await readdir(from)) {
    // This one tells directories apart.
    if (name === 'directory-id') continue;
    // Programs are never changed in place, so that links to them will do.
    const links = name === 'distributions' && here ? ['-l'] : [];
    await run('cp', ['-a', ...links, join(from, name), to]);
  }
}
