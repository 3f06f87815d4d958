import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

const read = (path: string): string => readFileSync(path, 'utf8').trim();

/** The directory of a process's control group, v1 or v2, as the kernel says. */
export function groupOf(pid: number, controller: 'cpu' | 'memory'): string {
  const line = read(`/proc/${pid}/cgroup`)
    .split('\n')
    .map((text) => text.split(':'))
    .find(([, names]) => names === controller || names === '');
  const version = line![1] === '' ? '' : `${controller}/`;
  return join('/sys/fs/cgroup', version, line!.slice(2).join(':'));
}

/** What the kernel holds a process to: CPUs, Infinity where all are free, and bytes of memory. */
export function limitsOf(pid: number): { cpu: number; memory_bytes: number } {
  const [cpu, memory] = [groupOf(pid, 'cpu'), groupOf(pid, 'memory')];
  if (existsSync(join(cpu, 'cpu.max'))) {
    const [quota, period] = read(join(cpu, 'cpu.max')).split(' ').map(Number);
    return {
      cpu: Number.isNaN(quota) ? Infinity : quota! / period!,
      memory_bytes: Number(read(join(memory, 'memory.max'))),
    };
  }
  const quota = Number(read(join(cpu, 'cpu.cfs_quota_us')));
  const share = quota < 0 ? Infinity : quota / Number(read(join(cpu, 'cpu.cfs_period_us')));
  return { cpu: share, memory_bytes: Number(read(join(memory, 'memory.limit_in_bytes'))) };
}
