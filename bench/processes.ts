import { readdirSync, readFileSync } from 'node:fs';

/** Clock ticks a second in /proc; every Linux that Node runs on has the same (USER_HZ). */
const TICKS_PER_SECOND = 100;

/** CPU time that a process and its threads have used since its start, in milliseconds; 0 once it has gone. */
export function cpuMilliseconds(pid: number): number {
  return cpuTimes(pid).own_ms;
}

/**
 * The same for a whole family, whose members come and go: what one has used is counted with its parent once it has
 * ended. All parents but the first process's own must be among the pids.
 */
export function familyCpuMilliseconds(pids: readonly number[]): number {
  return pids.map(cpuTimes).reduce((sum, { own_ms, ended_children_ms }) => sum + own_ms + ended_children_ms, 0);
}

function cpuTimes(pid: number): { own_ms: number; ended_children_ms: number } {
  try {
    // The name stands in brackets and may hold anything; utime, stime, cutime, cstime are fields 14 to 17 of proc(5).
    const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ').at(-1)!.split(' ').slice(11, 15).map(Number);
    const [user = 0, system = 0, children_user = 0, children_system = 0] = fields;
    const milliseconds = (ticks: number) => (ticks * 1000) / TICKS_PER_SECOND;
    return { own_ms: milliseconds(user + system), ended_children_ms: milliseconds(children_user + children_system) };
  } catch {
    return { own_ms: 0, ended_children_ms: 0 };
  }
}

/** The processes that serve a Coppice's clients: its main one, and the gateway's workers where it has any. */
export function gatewayPids(main_pid: number): number[] {
  const children = readdirSync(`/proc/${main_pid}/task`).flatMap((thread) =>
    readFileSync(`/proc/${main_pid}/task/${thread}/children`, 'utf8').split(' ').filter(Boolean).map(Number),
  );
  const isWorker = (pid: number) => commandOf(pid).includes('gateway-worker');
  return [main_pid, ...children.filter(isWorker)];
}

function commandOf(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8');
  } catch {
    return '';
  }
}

/** Memory that a process has in use, what it shares with others included; 0 once it has gone. */
export function rssBytes(pid: number): number {
  try {
    const [, kib] = /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))!;
    return Number(kib) * 1024;
  } catch {
    return 0;
  }
}

/** A process's share of memory: what is its own, and its part of what it shares. 0 once it has gone. */
export function pssBytes(pid: number): number {
  try {
    const [, kib] = /^Pss:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/smaps_rollup`, 'utf8'))!;
    return Number(kib) * 1024;
  } catch {
    return 0;
  }
}
