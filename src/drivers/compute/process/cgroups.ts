import { existsSync, mkdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { type ComputeUnits, ramBytes } from '../../../domain/compute-size.ts';
import { childrenOf } from './processes.ts';

/**
 * Control groups hold a compute to its size: a share of CPU time, and memory. They are made below the group that this
 * process is in, so that limits on Coppice itself hold for its computes, too.
 *
 * A compute that wants more memory than it may have first loses page cache. What then still does not fit makes the
 * kernel kill one of its processes, the largest; Postgres takes that for a crash, ends its other sessions and recovers
 * by itself. Nothing acknowledged is lost, and other computes do not notice.
 */
export interface Cgroups {
  /** Why sizes are not enforced; undefined when they are. */
  readonly problem?: string;
  /** Makes the group of a compute. Memory is limited at once, CPU with `limitCpu`: a start is not to be slowed down. */
  create(id: string, size: ComputeUnits): { group: string[]; fits: boolean };
  /** Moves a process and the children it has by now; those it gets later are in the group from the beginning. */
  enrol(group: readonly string[], pid: number): Promise<void>;
  limitCpu(group: readonly string[], size: ComputeUnits): void;
  /** Takes that limit away. */
  freeCpu(group: readonly string[]): void;
  /** False when the compute holds more memory than the new limit and the kernel could not take it back. */
  limitMemory(group: readonly string[], size: ComputeUnits): boolean;
  members(group: readonly string[]): number[];
  remove(group: readonly string[]): Promise<void>;
}

const PERIOD_US = 100_000;
/** v2: above this share of the limit the kernel slows the compute down and takes memory back. */
const MEMORY_HIGH = 0.9;
const REMOVE_TIMEOUT_MS = 5000;
/** v2: a group that hands out controllers may hold no process itself, so ours sit beside the computes in this one. */
const CONTROL = 'control';

interface Mount {
  readonly root: string;
  readonly path: string;
  readonly type: string;
  readonly options: string;
}

const read = (path: string): string => readFileSync(path, 'utf8');

function mounts(proc: string): Mount[] {
  return read(join(proc, 'mountinfo'))
    .split('\n')
    .filter((line) => line.includes(' - cgroup'))
    .map((line) => {
      const [fields = [], rest = []] = line.split(' - ').map((half) => half.split(' '));
      return { root: fields[3] ?? '/', path: fields[4] ?? '', type: rest[0] ?? '', options: rest[2] ?? '' };
    });
}

/** The directory of the group that a process is in, within a mount that may show only a part of the tree. */
function ownDirectory(proc: string, { root, path }: Mount, controller: string): string {
  const line = read(join(proc, 'cgroup'))
    .split('\n')
    .map((text) => text.split(':'))
    .find(([, names]) => (names ?? '').split(',').includes(controller));
  const own = line?.slice(2).join(':') ?? '/';
  const below = root === '/' ? own : own.startsWith(root) ? own.slice(root.length) : '/';
  return below.includes('..') ? path : join(path, below);
}

/**
 * Looks for groups that this process may make; says why not where it may not.
 *
 * @param parent name of the group that those of the computes are below: another one for each installation, since two
 *   may run in one group and call their computes the same
 */
export function detectCgroups(parent: string, proc = '/proc/self'): Cgroups {
  try {
    const all = mounts(proc);
    const unified = all.find(({ type }) => type === 'cgroup2');
    const [cpu, memory] = ['cpu', 'memory'].map((name) =>
      all.find(({ type, options }) => type === 'cgroup' && options.split(',').includes(name)),
    );
    if (cpu && memory) return versionOne(parent, ownDirectory(proc, cpu, 'cpu'), ownDirectory(proc, memory, 'memory'));
    if (unified) return versionTwo(parent, ownDirectory(proc, unified, ''));
    return unenforced('this system has no control groups for CPU and memory');
  } catch (error) {
    return unenforced(`Coppice may not make control groups here (${(error as Error).message})`);
  }
}

function unenforced(problem: string): Cgroups {
  return {
    problem,
    create: () => ({ group: [], fits: true }),
    enrol: async () => {},
    limitCpu: () => {},
    freeCpu: () => {},
    limitMemory: () => true,
    members: () => [],
    remove: async (group) => removeDirectories(group),
  };
}

/** What both versions share: a group is one or more directories below `parents`, each with a list of processes. */
function groupsIn(
  parents: readonly string[],
  limits: Pick<Cgroups, 'limitCpu' | 'freeCpu' | 'limitMemory'>,
  prepare: (parent: string) => void = () => {},
): Cgroups {
  const makeParents = () => {
    for (const parent of parents) {
      mkdirSync(parent, { recursive: true });
      prepare(parent);
    }
  };
  // Tried now, so that whether sizes are enforced is known from the beginning.
  makeParents();
  for (const parent of parents) removeWhenEmpty(parent);
  return {
    ...limits,
    create: (id, size) => {
      makeParents();
      const group = parents.map((parent) => join(parent, id));
      for (const directory of group) mkdirSync(directory, { recursive: true });
      return { group, fits: limits.limitMemory(group, size) };
    },
    enrol: async (group, pid) => {
      // After a pause the first move waits for every CPU of the machine (13 ms), so not the event loop waits for it.
      for (const directory of group) await move(directory, pid);
      for (const directory of group) {
        for (const child of childrenOf(pid)) await move(directory, child);
      }
    },
    members: (group) => group.slice(0, 1).flatMap(processesOf),
    remove: async (group) => {
      await removeDirectories(group);
      for (const directory of group) removeWhenEmpty(dirname(directory));
    },
  };
}

function processesOf(directory: string): number[] {
  try {
    return read(join(directory, 'cgroup.procs')).split('\n').filter(Boolean).map(Number);
  } catch {
    return [];
  }
}

/** Moves a process that is not there yet and has not ended. */
async function move(directory: string, pid: number): Promise<void> {
  if (processesOf(directory).includes(pid)) return;
  try {
    await writeFile(join(directory, 'cgroup.procs'), String(pid));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
  }
}

function removeWhenEmpty(parent: string): void {
  try {
    rmdirSync(parent);
  } catch {
    // Others have their groups in it.
  }
}

/** A group goes when its last process has been collected, which may take a moment after its end. */
async function removeDirectories(group: readonly string[]): Promise<void> {
  const deadline = Date.now() + REMOVE_TIMEOUT_MS;
  for (const directory of group) {
    for (;;) {
      try {
        rmdirSync(directory);
        break;
      } catch (error) {
        const { code } = error as NodeJS.ErrnoException;
        if (code === 'ENOENT') break;
        if (code !== 'EBUSY' || Date.now() >= deadline) throw error;
        await delay(5);
      }
    }
  }
}

const quotaMicroseconds = (size: ComputeUnits): number => Math.round(size * PERIOD_US);

function versionOne(parent: string, cpu: string, memory: string): Cgroups {
  return groupsIn([join(cpu, parent), join(memory, parent)], {
    limitCpu: ([directory], size) => {
      if (!directory) return;
      writeFileSync(join(directory, 'cpu.cfs_period_us'), String(PERIOD_US));
      writeFileSync(join(directory, 'cpu.cfs_quota_us'), String(quotaMicroseconds(size)));
    },
    freeCpu: ([directory]) => {
      if (directory) writeFileSync(join(directory, 'cpu.cfs_quota_us'), '-1');
    },
    limitMemory: ([, directory], size) => {
      if (!directory) return true;
      try {
        writeFileSync(join(directory, 'memory.limit_in_bytes'), String(ramBytes(size)));
        return true;
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== 'EBUSY') throw error;
        return false;
      }
    },
  });
}

function versionTwo(parent: string, own: string): Cgroups {
  const base = basename(own) === CONTROL ? dirname(own) : own;
  const offered = read(join(base, 'cgroup.controllers')).trim().split(/\s+/);
  if (!offered.includes('cpu') || !offered.includes('memory')) {
    return unenforced(`the control group ${base} offers no cpu and memory controller`);
  }
  handOutControllers(base);
  const limits: Pick<Cgroups, 'limitCpu' | 'freeCpu' | 'limitMemory'> = {
    limitCpu: ([directory], size) => {
      if (directory) writeFileSync(join(directory, 'cpu.max'), `${quotaMicroseconds(size)} ${PERIOD_US}`);
    },
    freeCpu: ([directory]) => {
      if (directory) writeFileSync(join(directory, 'cpu.max'), `max ${PERIOD_US}`);
    },
    limitMemory: ([directory], size) => {
      if (!directory) return true;
      const bytes = ramBytes(size);
      writeFileSync(join(directory, 'memory.high'), String(Math.round(bytes * MEMORY_HIGH)));
      // A limit below what is in use would make the kernel kill at once; `memory.high` slows down and takes back instead.
      const fits =
        !existsSync(join(directory, 'memory.current')) || Number(read(join(directory, 'memory.current'))) < bytes;
      if (fits) writeFileSync(join(directory, 'memory.max'), String(bytes));
      return fits;
    },
  };
  return groupsIn([join(base, parent)], limits, handOutControllers);
}

function handOutControllers(directory: string): void {
  const path = join(directory, 'cgroup.subtree_control');
  const enabled = read(path).trim().split(/\s+/);
  if (enabled.includes('cpu') && enabled.includes('memory')) return;
  const others = processesOf(directory).filter((pid) => pid !== process.pid);
  try {
    writeFileSync(path, '+cpu +memory');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EBUSY') throw error;
    if (others.length > 0) {
      throw new Error(
        `the control group ${directory} holds other processes, too: run Coppice in one of its own (systemd: Delegate=yes)`,
      );
    }
    mkdirSync(join(directory, CONTROL), { recursive: true });
    writeFileSync(join(directory, CONTROL, 'cgroup.procs'), String(process.pid));
    writeFileSync(path, '+cpu +memory');
  }
}
