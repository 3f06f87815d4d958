/**
 * Named places where a test stops or kills the engine, so that a race or a crash can be made to happen every time.
 * `COPPICE_TEST_STOP_POINT=<name>` kills the process there with SIGKILL; without it they cost a comparison.
 */
const chosen = process.env.COPPICE_TEST_STOP_POINT;

export function stopPoint(name: string): void {
  if (chosen !== undefined && chosen === name) process.kill(process.pid, 'SIGKILL');
}
