import { readFileSync } from 'node:fs';

/** Clock ticks a second in /proc; every Linux that Node runs on has the same (USER_HZ). */
const TICKS_PER_SECOND = 100;

/** CPU time that a process and its threads have used since its start; 0 once it has gone. */
export function cpuMilliseconds(pid: number): number {
  try {
    // The name stands in brackets and may hold anything; utime and stime are fields 14 and 15 of proc(5).
    const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ').at(-1)!.split(' ');
    return ((Number(fields[11]) + Number(fields[12])) * 1000) / TICKS_PER_SECOND;
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
