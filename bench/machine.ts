import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { statfs } from 'node:fs/promises';
import { cpus, release, tmpdir, totalmem, type } from 'node:os';
import { setTimeout as delay } from 'node:timers/promises';
import { promisify } from 'node:util';

const run = promisify(execFile);

/** What a reader needs in order to hold a figure against another machine's. */
export interface Machine {
  readonly cores: number;
  readonly processor: string;
  readonly memory_gib: number;
  readonly kernel: string;
  /** Of the temporary directory, where every section works. */
  readonly filesystem: string;
  readonly node: string;
  /** Of this project; `+` when files were changed since. */
  readonly commit: string | undefined;
}

/** Above this something else was running, and the figures are not to be published. */
export const BUSY_PERCENT_MAX = 5;
const WATCHED_MS = 3000;

export async function describeMachine(): Promise<Machine> {
  const [first] = cpus();
  return {
    cores: cpus().length,
    processor: first?.model.trim() ?? 'unknown',
    memory_gib: Math.round((totalmem() / 1024 ** 3) * 10) / 10,
    kernel: `${type()} ${release()}`,
    filesystem: await filesystemOf(tmpdir()),
    node: process.version,
    commit: await currentCommit(),
  };
}

/** One line for people. */
export function formatMachine({ cores, processor, memory_gib, kernel, filesystem, node }: Machine): string {
  return `${cores} cores (${processor}), ${memory_gib} GiB of memory, ${kernel}, ${filesystem}, Node ${node}`;
}

/** Throws when less than so much is free where the sections work. */
export async function requireFreeSpace(bytes: number): Promise<void> {
  const { bavail, bsize } = await statfs(tmpdir());
  if (bavail * bsize >= bytes) return;
  const gib = (size: number) => `${(size / 1024 ** 3).toFixed(0)} GiB`;
  throw new Error(
    `${tmpdir()} has ${gib(bavail * bsize)} free and ${gib(bytes)} are needed; set TMPDIR to choose another`,
  );
}

/** The type of the filesystem that holds a path: that of the longest mount point above it. */
async function filesystemOf(path: string): Promise<string> {
  const { stdout } = await run('findmnt', ['--noheadings', '--output', 'FSTYPE', '--target', path]).catch(() => ({
    stdout: 'unknown filesystem',
  }));
  return stdout.trim();
}

async function currentCommit(): Promise<string | undefined> {
  try {
    const cwd = import.meta.dirname;
    const { stdout: commit } = await run('git', ['rev-parse', '--short', 'HEAD'], { cwd });
    const { stdout: changes } = await run('git', ['status', '--porcelain', '--', '../src', '../bin'], { cwd });
    return `${commit.trim()}${changes === '' ? '' : '+'}`;
  } catch {
    return undefined;
  }
}

/** Share of the processors that is in use, in percent, looked at for a few seconds while nothing of ours runs. */
export async function busyPercent(): Promise<number> {
  const before = processorTimes();
  await delay(WATCHED_MS);
  const after = processorTimes();
  const all = after.all - before.all;
  return all === 0 ? 0 : Math.round((1 - (after.idle - before.idle) / all) * 1000) / 10;
}

/** Milliseconds of processor that everything on this machine has used since its start. */
export function busyMilliseconds(): number {
  const { all, idle } = processorTimes();
  return (all - idle) * 10;
}

/** Ticks since the machine was started; proc(5): user, nice, system, idle, iowait, irq, softirq, steal. */
function processorTimes(): { all: number; idle: number } {
  const ticks = readFileSync('/proc/stat', 'utf8').split('\n')[0]!.trim().split(/\s+/).slice(1, 9).map(Number);
  return { all: ticks.reduce((sum, tick) => sum + tick, 0), idle: ticks[3]! + ticks[4]! };
}
