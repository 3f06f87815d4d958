import { existsSync, readdirSync, readFileSync, readlinkSync, realpathSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';

/**
 * What a run of tests left on the machine, told by the run's own temporary directory: tests keep everything below it,
 * so whatever still names it was forgotten. Reads /proc and /sys; elsewhere than on Linux only files are looked at.
 */

/** How long what is ending is waited for. */
const PATIENCE_MS = 10_000;

function read(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return '';
  }
}

function linkTarget(path: string): string {
  try {
    return readlinkSync(path);
  } catch {
    return '';
  }
}

/** Processes whose arguments, environment, working directory or program lie below the directory. */
export function processesUsing(directory: string): { pid: number; title: string }[] {
  if (!existsSync('/proc/self')) return [];
  const found: { pid: number; title: string }[] = [];
  for (const name of readdirSync('/proc')) {
    const pid = Number(name);
    if (!Number.isInteger(pid) || pid === process.pid) continue;
    const argv = read(`/proc/${pid}/cmdline`).replaceAll('\0', ' ').trim();
    // A process without arguments is a kernel thread, or has ended and waits to be collected.
    if (argv === '') continue;
    const signs = [argv, read(`/proc/${pid}/environ`), linkTarget(`/proc/${pid}/cwd`), linkTarget(`/proc/${pid}/exe`)];
    if (signs.some((sign) => sign.includes(directory))) found.push({ pid, title: argv.slice(0, 160) });
  }
  return found;
}

/** The process that runs a test file, started by this one, and everything that it started; children first. */
export function processesRunning(file: string): { pid: number }[] {
  const parents = new Map<number, number>();
  for (const name of existsSync('/proc/self') ? readdirSync('/proc') : []) {
    // The parent is the second field after the name, which stands in brackets and may hold anything.
    const parent = read(`/proc/${name}/stat`).split(') ').at(-1)?.split(' ')[1];
    if (parent) parents.set(Number(name), Number(parent));
  }
  const root = [...parents].find(
    ([pid, parent]) => parent === process.pid && read(`/proc/${pid}/cmdline`).split('\0').includes(file),
  );
  if (!root) return [];
  const found = [root[0]];
  for (const pid of found) found.push(...[...parents].filter(([, parent]) => parent === pid).map(([child]) => child));
  return found.reverse().map((pid) => ({ pid }));
}

/** Ends processes at once; one that has ended meanwhile is fine. */
export function endProcesses(processes: readonly { readonly pid: number }[]): void {
  for (const { pid } of processes) {
    try {
      process.kill(pid, 'SIGKILL');
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
    }
  }
}

/** Mount points below the directory, deepest first. */
export function mountsBelow(directory: string): string[] {
  return read('/proc/self/mountinfo')
    .split('\n')
    .map((line) =>
      (line.split(' ')[4] ?? '').replace(/\\(\d{3})/g, (_, octal: string) => String.fromCharCode(parseInt(octal, 8))),
    )
    .filter((path) => path.startsWith(`${directory}/`))
    .sort((a, b) => b.length - a.length);
}

/** Loop devices whose backing file lies below the directory, as device names. */
export function loopDevicesOver(directory: string): string[] {
  if (!existsSync('/sys/block')) return [];
  return readdirSync('/sys/block')
    .filter(
      (name) => name.startsWith('loop') && read(`/sys/block/${name}/loop/backing_file`).startsWith(`${directory}/`),
    )
    .map((name) => `/dev/${name}`);
}

function look(directory: string): string[] {
  return [
    ...processesUsing(directory).map(({ pid, title }) => `process ${pid}: ${title}`),
    ...mountsBelow(directory).map((path) => `mount ${path}`),
    ...loopDevicesOver(directory).map((device) => `loop device ${device}`),
    ...readdirSync(directory).map((name) => `file ${directory}/${name}`),
  ];
}

/** One line for everything that tests left behind; waits for what is still ending. */
export async function findLeftovers(directory: string, { patience_ms = PATIENCE_MS } = {}): Promise<string[]> {
  const real = realpathSync(directory);
  const deadline = Date.now() + patience_ms;
  let left = look(real);
  while (left.length > 0 && Date.now() < deadline) {
    await delay(100);
    left = look(real);
  }
  return left;
}
