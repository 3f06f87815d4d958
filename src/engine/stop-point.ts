import { readFileSync } from 'node:fs';

/**
 * Named places where a test stops or kills the engine, so that a race or a crash can be made to happen every time.
 * `COPPICE_TEST_STOP_POINT=<name>` kills the process there with SIGKILL; without it they cost a comparison. A path instead
 * of a name is that of a file that holds the name, so that it can be chosen while the process runs.
 */
const chosen = process.env.COPPICE_TEST_STOP_POINT;

export function stopPoint(name: string): void {
  if (chosen === undefined) return;
  const wanted = chosen.startsWith('/') ? readFileSync(chosen, 'utf8') : chosen;
  if (wanted === name) process.kill(process.pid, 'SIGKILL');
}
