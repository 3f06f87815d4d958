import { runCommand } from './command.ts';

const REMOVE_TIMEOUT_MS = 600_000;
const ATTEMPTS_MAX = 3;

/**
 * Removes a tree that someone hostile may change meanwhile. `rm` holds every directory open while it is inside, so no swapped link leads it
 * out, and no depth is too much for it; `fs.rm` promises neither.
 */
export async function removeTree(path: string): Promise<void> {
  for (let attempt = 1; ; attempt++) {
    try {
      await runCommand('rm', ['-rf', '--', path], { timeout_ms: REMOVE_TIMEOUT_MS });
      return;
    } catch (error) {
      // A directory that got a new file while it was emptied.
      if (attempt === ATTEMPTS_MAX) throw error;
    }
  }
}
