import { readFileSync, readlinkSync, statSync } from 'node:fs';
import { readdir } from 'node:fs/promises';
import { setImmediate as nextTurn } from 'node:timers/promises';

/** What is known of processes, from /proc. A process that has ended and waits to be collected counts as gone. */

/** USER_HZ, which Linux fixes at 100 on the architectures that Node runs on. */
const TICKS_PER_SECOND = 100;
const PROCESSES_PER_TURN = 200;

/** A process and when it began: together they are never given out twice until the machine restarts. */
export interface ProcessIdentity {
  readonly pid: number;
  /** Ticks since the machine started. */
  readonly start_ticks: number;
}

function read(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return undefined;
  }
}

/** The fields of /proc/<pid>/stat from the third on; undefined when there is no such process any more. */
function statFields(pid: number): string[] | undefined {
  const stat = read(`/proc/${pid}/stat`);
  // The name before them stands in brackets and may hold anything.
  const fields = stat?.slice(stat.lastIndexOf(')') + 2).split(' ');
  return !fields || fields[0] === 'Z' || fields[0] === 'X' ? undefined : fields;
}

/** undefined when there is no such process any more. */
export function identifyProcess(pid: number): ProcessIdentity | undefined {
  const fields = statFields(pid);
  return fields && { pid, start_ticks: Number(fields[19]) };
}

export function parentOf(pid: number): number | undefined {
  const fields = statFields(pid);
  return fields && Number(fields[1]);
}

export function isSameProcess({ pid, start_ticks }: ProcessIdentity): boolean {
  return identifyProcess(pid)?.start_ticks === start_ticks;
}

export const isProcess = (pid: number): boolean => identifyProcess(pid) !== undefined;

/** Sends a signal to exactly this process. False when it is gone. */
export function signalProcess(process_: ProcessIdentity, signal: NodeJS.Signals): boolean {
  if (!isSameProcess(process_)) return false;
  try {
    return process.kill(process_.pid, signal);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ESRCH') return false;
    throw error;
  }
}

/** When a process began, in seconds since 1970, as the clock of now reckons it. */
export function startSeconds({ start_ticks }: ProcessIdentity): number {
  const boot = /^btime (\d+)$/m.exec(read('/proc/stat') ?? '')?.[1];
  return Number(boot) + start_ticks / TICKS_PER_SECOND;
}

let boot: string | undefined;

/** Names the time since the machine started; ticks and pids mean something within one only. */
export function bootId(): string {
  boot ??= (read('/proc/sys/kernel/random/boot_id') ?? '').trim();
  return boot;
}

export function commandLine(pid: number): string[] {
  return (read(`/proc/${pid}/cmdline`) ?? '').split('\0');
}

/** Runs the program `postgres`, of whatever distribution; a program that was replaced meanwhile still counts. */
export function runsPostgres(pid: number): boolean {
  try {
    return /\/postgres( \(deleted\))?$/.test(readlinkSync(`/proc/${pid}/exe`));
  } catch {
    return false;
  }
}

/** The effective user of a process. */
export function userOf(pid: number): number | undefined {
  const status = read(`/proc/${pid}/status`);
  const uid = /^Uid:\t\d+\t(\d+)/m.exec(status ?? '')?.[1];
  return uid === undefined ? undefined : Number(uid);
}

/** A server and all its children work in their data directory. */
export function worksIn(pid: number, directory: string): boolean {
  try {
    const [own, other] = [statSync(`/proc/${pid}/cwd`), statSync(directory)];
    return own.ino === other.ino && own.dev === other.dev;
  } catch {
    return false;
  }
}

export function childrenOf(pid: number): number[] {
  const listed = read(`/proc/${pid}/task/${pid}/children`) ?? '';
  return listed.split(' ').filter(Boolean).map(Number);
}

/** Every process that matches. Looks in small portions, since a host may hold tens of thousands. */
export async function processesWhere(matches: (pid: number) => boolean): Promise<ProcessIdentity[]> {
  const pids = (await readdir('/proc')).map(Number).filter(Number.isInteger);
  const found: ProcessIdentity[] = [];
  for (const [index, pid] of pids.entries()) {
    const process_ = matches(pid) ? identifyProcess(pid) : undefined;
    if (process_) found.push(process_);
    if (index % PROCESSES_PER_TURN === PROCESSES_PER_TURN - 1) await nextTurn();
  }
  return found;
}
