import { execFile } from 'node:child_process';
import { unlink } from 'node:fs/promises';
import { promisify } from 'node:util';

const run = promisify(execFile);
const TIMEOUT_MS = 600_000;
const ATTEMPTS_MAX = 3;

/**
 * Removes what a customer may have put anything into and may change meanwhile: `rm` holds every directory open while it
 * is inside, so that no exchanged link leads it out, and no depth is too much for it; `fs.rm` promises neither.
 */
export async function removeTree(path: string): Promise<void> {
  // A single file needs no process.
  if (
    await unlink(path).then(
      () => true,
      () => false,
    )
  ) {
    return;
  }
  for (let attempt = 1; ; attempt++) {
    try {
      await run('rm', ['-rf', '--', path], { timeout: TIMEOUT_MS });
      return;
    } catch (error) {
      // A directory that got a new file while it was emptied.
      if (attempt === ATTEMPTS_MAX) throw error;
    }
  }
}
