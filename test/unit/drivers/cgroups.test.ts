import assert from 'node:assert/strict';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, describe, test } from 'node:test';
import { detectCgroups } from '../../../src/drivers/compute/process/cgroups.ts';

// Ordinary files stand in for the kernel's, since a machine has one version of control groups or the other.
let directory: string;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'coppice-cgroups-'));
});
afterEach(() => rmSync(directory, { recursive: true, force: true }));

function write(files: Readonly<Record<string, string>>): void {
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(directory, path)), { recursive: true });
    writeFileSync(join(directory, path), text);
  }
}

const read = (path: string): string => readFileSync(join(directory, path), 'utf8');
const detect = () => detectCgroups('coppice', join(directory, 'proc'));
const mount = (root: string, path: string, type: string, options: string): string =>
  `30 20 0:26 ${root} ${join(directory, path)} rw,relatime shared:9 - ${type} ${type} rw,${options}\n`;
const GIB = 1024 ** 3;

describe('control groups of version 1', () => {
  test('are made below our own, one for each controller', async () => {
    write({
      'proc/mountinfo': mount('/', 'cpu', 'cgroup', 'cpu,cpuacct') + mount('/', 'memory', 'cgroup', 'memory'),
      'proc/cgroup': '5:memory:/service:odd\n4:cpu,cpuacct:/service\n1:name=systemd:/elsewhere\n',
      'cpu/service/tasks': '',
      'memory/service:odd/tasks': '',
    });
    const cgroups = detect();
    assert.equal(cgroups.problem, undefined);
    const { group, fits } = cgroups.create('ep-a', 0.5);
    assert.equal(fits, true);
    assert.deepEqual(group, [
      join(directory, 'cpu/service/coppice/ep-a'),
      join(directory, 'memory/service:odd/coppice/ep-a'),
    ]);
    cgroups.limitCpu(group, 0.5);
    assert.equal(read('cpu/service/coppice/ep-a/cpu.cfs_quota_us'), '50000');
    assert.equal(read('cpu/service/coppice/ep-a/cpu.cfs_period_us'), '100000');
    assert.equal(read('memory/service:odd/coppice/ep-a/memory.limit_in_bytes'), String(2 * GIB));
    cgroups.freeCpu(group);
    assert.equal(read('cpu/service/coppice/ep-a/cpu.cfs_quota_us'), '-1');
    await cgroups.enrol(group, process.pid);
    assert.equal(read('cpu/service/coppice/ep-a/cgroup.procs'), String(process.pid));
    assert.deepEqual(cgroups.members(group), [process.pid]);
  });

  test('are found where a container shows only its own part of the tree', () => {
    write({
      'proc/mountinfo': mount('/docker/c1', 'cpu', 'cgroup', 'cpu') + mount('/docker/c1', 'memory', 'cgroup', 'memory'),
      'proc/cgroup': '5:memory:/docker/c1\n4:cpu:/docker/c1/inner\n',
    });
    const { group } = detect().create('ep-a', 1);
    assert.deepEqual(group, [join(directory, 'cpu/inner/coppice/ep-a'), join(directory, 'memory/coppice/ep-a')]);
  });
});

describe('control groups of version 2', () => {
  const unified = (own: string) => ({
    'proc/mountinfo': mount('/', 'unified', 'cgroup2', 'nsdelegate'),
    'proc/cgroup': `0::${own}\n`,
  });

  test('are made beside the group of our processes where the supervisor has prepared one', async () => {
    write({
      ...unified('/coppice.service/control'),
      'unified/coppice.service/cgroup.controllers': 'cpu io memory pids\n',
      'unified/coppice.service/cgroup.subtree_control': '\n',
      'unified/coppice.service/coppice/cgroup.subtree_control': 'cpu memory\n',
    });
    const cgroups = detect();
    assert.equal(cgroups.problem, undefined);
    assert.equal(read('unified/coppice.service/cgroup.subtree_control'), '+cpu +memory');
    const { group } = cgroups.create('ep-a', 2);
    cgroups.limitCpu(group, 2);
    assert.equal(read('unified/coppice.service/coppice/ep-a/cpu.max'), '200000 100000');
    cgroups.freeCpu(group);
    assert.equal(read('unified/coppice.service/coppice/ep-a/cpu.max'), 'max 100000');
    assert.equal(read('unified/coppice.service/coppice/ep-a/memory.high'), String(Math.round(8 * GIB * 0.9)));
    assert.equal(read('unified/coppice.service/coppice/ep-a/memory.max'), String(8 * GIB));
  });

  test('are not made smaller than what a compute holds, since the kernel would kill at once', () => {
    write({
      ...unified('/own'),
      'unified/own/cgroup.controllers': 'cpu memory\n',
      'unified/own/cgroup.subtree_control': 'cpu memory\n',
      'unified/own/coppice/cgroup.subtree_control': 'cpu memory\n',
    });
    const cgroups = detect();
    const { group } = cgroups.create('ep-a', 2);
    write({ 'unified/own/coppice/ep-a/memory.current': String(3 * GIB) });
    assert.equal(cgroups.limitMemory(group, 0.5), false);
    assert.equal(read('unified/own/coppice/ep-a/memory.max'), String(8 * GIB));
    assert.equal(read('unified/own/coppice/ep-a/memory.high'), String(Math.round(2 * GIB * 0.9)));
  });

  test('are not used where the group hands out no controllers', () => {
    write({ ...unified('/own'), 'unified/own/cgroup.controllers': 'pids\n' });
    assert.match(detect().problem!, /offers no cpu and memory controller/);
  });
});

test('without control groups nothing is limited, and the reason is told', async () => {
  write({ 'proc/mountinfo': '', 'proc/cgroup': '' });
  const cgroups = detect();
  assert.match(cgroups.problem!, /no control groups/);
  const { group } = cgroups.create('ep-a', 1);
  assert.deepEqual(group, []);
  await cgroups.enrol(group, process.pid);
  cgroups.limitCpu(group, 1);
  assert.deepEqual(cgroups.members(group), []);
  await cgroups.remove(group);
  assert.deepEqual(readdirSync(directory), ['proc']);
  rmSync(join(directory, 'proc'), { recursive: true });
  assert.match(detect().problem!, /may not make control groups/);
  assert.ok(!existsSync(join(directory, 'coppice')));
});
