import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { once } from 'node:events';
import {
  appendFileSync,
  chownSync,
  existsSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { after, describe, test } from 'node:test';
import { promisify } from 'node:util';
import { ramBytes } from '../../src/domain/compute-size.ts';
import type { ComputeSpec } from '../../src/drivers/compute/contract.ts';
import { ask, enter, openComputes, postmasterPid, processesOf } from '../support/computes.ts';
import { groupOf, limitsOf } from '../support/control-groups.ts';
import { until } from '../support/until.ts';

const run = promisify(execFile);
const computes = await openComputes();
const { driver } = computes;
after(() => computes[Symbol.asyncDispose]());

const isRoot = process.getuid?.() === 0;
const rootOnly = isRoot ? false : 'needs root: without it everything is one user';

/** What a program says when it is run as another user. */
async function runAs(uid: number, program: string, ...args: string[]): Promise<string> {
  const { stdout, stderr } = await run(program, args, { uid, gid: uid, cwd: '/' }).catch((error) => error);
  return stdout + stderr;
}

describe('the process of a compute', () => {
  test('has an empty environment, a session of its own, and its platform settings as arguments', async () => {
    const spec = await computes.newSpec(17);
    await driver.ensureRunning(spec);
    const pid = postmasterPid(spec);
    assert.equal(readFileSync(`/proc/${pid}/environ`, 'utf8'), '');
    const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]!.split(' ');
    assert.equal(Number(fields[3]), pid, 'it leads its session');
    for (const name of ['fsync', 'full_page_writes', 'wal_recycle', 'config_file', 'hba_file', 'ident_file']) {
      assert.equal(await ask(driver, spec, `select source from pg_settings where name = '${name}'`), sourceOf(name));
    }
    assert.equal(await ask(driver, spec, 'show listen_addresses'), '');
  });

  test('keeps its platform settings whatever the volume brings along', async () => {
    const spec = await computes.newSpec(17, { conf: 'fsync = off\nport = 6000\n' });
    appendFileSync(join(spec.data_directory, 'postgresql.auto.conf'), "wal_recycle = on\nlisten_addresses = '*'\n");
    await driver.ensureRunning(spec);
    for (const [name, value] of [
      ['fsync', 'on'],
      ['wal_recycle', 'off'],
      ['listen_addresses', ''],
      ['port', '5432'],
    ]) {
      assert.equal(await ask(driver, spec, `show ${name}`), value);
    }
  });

  test('reads its configuration and cannot write it, nor its log', { skip: rootOnly }, async () => {
    const spec = await computes.newSpec(17);
    await driver.ensureRunning(spec);
    const directory = join(computes.stateDir, spec.id);
    const { uid } = spec.owner!;
    for (const name of ['postgresql.conf', 'pg_hba.conf', 'pg_ident.conf', 'postgres.log', 'record.json']) {
      assert.match(await runAs(uid, 'sh', '-c', `echo >> ${directory}/${name}`), /Permission denied/);
      assert.match(await runAs(uid, 'rm', '-f', `${directory}/${name}`), /Permission denied/);
      assert.equal(statSync(join(directory, name)).mode & 0o007, 0, 'and it is closed to others');
    }
    assert.match(await runAs(uid, 'cat', `${directory}/pg_hba.conf`), /cloud_admin/);
    assert.match(await runAs(uid + 1, 'cat', `${directory}/pg_hba.conf`), /Permission denied/);
    // Not through the file descriptor that it was given either.
    const pid = postmasterPid(spec);
    assert.match(await runAs(uid, 'sh', '-c', `: > /proc/${pid}/fd/2`), /Permission denied/);
  });

  test('is reached by its own user and by us, and by nobody else', { skip: rootOnly }, async () => {
    const spec = await computes.newSpec(17);
    await driver.ensureRunning(spec);
    const socket = join(driver.socketDirectory(spec.id), '.s.PGSQL.5432');
    const connect = `require('net').connect(${JSON.stringify(socket)}).on('error', (e) => { console.log(e.code); process.exit() }).on('connect', () => { console.log('in'); process.exit() })`;
    // As Node itself may be out of reach for other users.
    const node = join(computes.directory, 'node');
    await run('cp', [process.execPath, node]);
    assert.equal(await runAs(spec.owner!.uid, node, '-e', connect), 'in\n');
    assert.equal(await runAs(spec.owner!.uid - 1, node, '-e', connect), 'EACCES\n');
    assert.equal(statSync(dirname(socket)).mode & 0o777, 0o700);
  });

  test('cannot hand us another compute’s socket for its own', { skip: rootOnly }, async () => {
    const [spec, other] = [await computes.newSpec(17), await computes.newSpec(17)];
    const ref = await driver.ensureRunning(spec);
    await driver.ensureRunning(other);
    const socket = join(driver.socketDirectory(spec.id), '.s.PGSQL.5432');
    renameSync(socket, `${socket}.aside`);
    symlinkSync(join(driver.socketDirectory(other.id), '.s.PGSQL.5432'), socket);
    await assert.rejects(driver.dial(ref), { code: /ECONNREFUSED|ELOOP/ });
    rmSync(socket);
    renameSync(`${socket}.aside`, socket);
    (await driver.dial(ref)).destroy();
  });

  test('has its socket directory emptied of whatever was made in it', async () => {
    const spec = await computes.newSpec(17);
    const ref = await driver.ensureRunning(spec);
    await driver.ensureStopped(ref, 'staged');
    const directory = driver.socketDirectory(spec.id);
    const make = `mkdir -p ${directory}/.s.PGSQL.5432/deep && ln -s ${computes.stateDir} ${directory}/.s.PGSQL.5432/deep/link`;
    if (spec.owner) await runAs(spec.owner.uid, 'sh', '-c', make);
    else await run('sh', ['-c', make]);
    await driver.ensureRunning(spec);
    assert.equal(await ask(driver, spec, 'select 1'), 1);
    mkdirSync(join(directory, 'again'));
    await driver.ensureRemoved(ref);
    assert.ok(!existsSync(directory) && existsSync(computes.stateDir));
  });
});

describe('limits', () => {
  const unenforced = driver.capabilities.limits_enforced ? false : 'control groups cannot be made here';

  test('hold every process of a compute from its start, and follow its size', { skip: unenforced }, async () => {
    const spec = await computes.newSpec(17);
    const ref = await driver.ensureRunning(spec);
    for (const size of [0.25, 2, 2, 0.5]) {
      await driver.ensureResized(ref, size);
      for (const { pid, title } of await processesOf(spec)) {
        assert.deepEqual(limitsOf(pid), { cpu: size, memory_bytes: ramBytes(size) }, title);
      }
    }
    // A driver of a later process keeps the size that the compute has.
    await computes.newDriver().ensureRunning(spec);
    const pid = postmasterPid(spec);
    assert.equal(limitsOf(pid).cpu, 0.5);
    const groups = [groupOf(pid, 'cpu'), groupOf(pid, 'memory')];
    await driver.ensureStopped(ref, 'staged');
    for (const group of groups) assert.ok(!existsSync(group), group);
  });

  test('of processor time begin when a compute has recovered, and end with its stop', {
    skip: unenforced,
  }, async () => {
    const spec = await computes.newSpec(17, { conf: 'hot_standby = off\n' });
    const signal = join(spec.data_directory, 'standby.signal');
    writeFileSync(signal, '');
    const { uid, gid } = statSync(spec.data_directory);
    chownSync(signal, uid, gid);
    const ref = await driver.ensureRunning(spec);
    const pid = postmasterPid(spec);
    const recovering = { cpu: Number.POSITIVE_INFINITY, memory_bytes: ramBytes(spec.size) };
    assert.deepEqual(limitsOf(pid), recovering);
    await computes.newDriver().ensureRunning(spec);
    assert.deepEqual(limitsOf(pid), recovering, 'a later process has taken it over');
    await driver.ensurePromoted(ref);
    assert.equal(limitsOf(pid).cpu, spec.size);

    process.kill(pid, 'SIGSTOP');
    const stopped = driver.ensureStopped(ref, 'staged');
    try {
      await until(() => limitsOf(pid).cpu === Number.POSITIVE_INFINITY, { what: 'the limit to go' });
    } finally {
      process.kill(pid, 'SIGCONT');
      await stopped;
    }
    assert.deepEqual(await processesOf(spec), []);
  });

  test('of memory end what is too large, and the compute recovers by itself', { skip: unenforced }, async () => {
    const spec = await computes.newSpec(17);
    const ref = await driver.ensureRunning(spec);
    await ask(driver, ref, 'create table kept as select 42 as answer');
    const pid = postmasterPid(spec);
    await using client = await enter(driver, ref);
    // Where the kernel slows down before it kills, that may take minutes.
    await client.query(`set statement_timeout = '60s'`);
    // Twice as much as it may have.
    const statement = `select array_length(array_agg(repeat('x', 100000) || i), 1) from generate_series(1, 20000) i`;
    await assert.rejects(client.query(statement), /terminated|timeout/);
    await until(async () => (await ask(driver, ref, 'select 1').catch(() => 0)) === 1, {
      what: 'the compute to recover',
    });
    assert.equal(await ask(driver, ref, 'select answer from kept'), 42);
    assert.equal(postmasterPid(spec), pid, 'its first process lives');
  });

  test('are said not to be enforced where they are not', () => {
    const told: string[] = [];
    const other = computes.newDriver({ logger: { warn: (_, message) => told.push(message) } });
    assert.deepEqual(told, other.capabilities.limits_enforced ? [] : ['compute sizes are not enforced']);
    assert.equal(other.capabilities.isolated_users, isRoot);
  });
});

describe('a driver', () => {
  const ended = async (spec: ComputeSpec, kill: (caller: ReturnType<typeof computes.callFromOutside>) => void) => {
    const caller = computes.callFromOutside(spec);
    const gone = once(caller, 'exit');
    let said = '';
    for await (const chunk of caller.stdout!) {
      said += chunk;
      if (said.includes('running')) break;
    }
    kill(caller);
    await gone;
  };

  test('adopts what an earlier process started, however that one ended', async () => {
    const spec = await computes.newSpec(17);
    for (const signal of ['SIGTERM', 'SIGKILL', 'SIGHUP'] as const) {
      // The whole process group, as a terminal or a supervisor would.
      await ended(spec, ({ pid }) => process.kill(-pid!, signal));
      const pid = postmasterPid(spec);
      const ref = await driver.ensureRunning(spec);
      assert.equal(postmasterPid(spec), pid);
      assert.equal(await ask(driver, ref, 'select 1'), 1);
    }
  });

  test('lists and stops servers that it has no record of', async () => {
    const spec = await computes.newSpec(17);
    const ref = await driver.ensureRunning(spec);
    rmSync(join(computes.stateDir, spec.id), { recursive: true });
    const later = computes.newDriver();
    assert.ok((await later.list()).some(({ id }) => id === ref.id));
    assert.equal((await later.observe(ref)).state, 'running');
    await later.ensureStopped(ref, 'staged');
    assert.deepEqual(await processesOf(spec), []);
    assert.ok(!(await later.list()).some(({ id }) => id === ref.id));
    await later.ensureRunning(spec);
    assert.equal(await ask(later, ref, 'select 1'), 1);
  });

  test('adopts a server whose record is lost', async () => {
    const spec = await computes.newSpec(17);
    await driver.ensureRunning(spec);
    const pid = postmasterPid(spec);
    rmSync(join(computes.stateDir, spec.id, 'record.json'));
    const ref = await computes.newDriver().ensureRunning(spec);
    assert.equal(postmasterPid(spec), pid);
    assert.equal((await driver.observe(ref)).state, 'running');
  });

  test('starts a server again whose socket was swept away', async () => {
    const spec = await computes.newSpec(17);
    const ref = await driver.ensureRunning(spec);
    const pid = postmasterPid(spec);
    rmSync(driver.socketDirectory(spec.id), { recursive: true });
    await assert.rejects(driver.dial(ref), { code: 'ENOENT' });
    await driver.ensureRunning(spec);
    assert.notEqual(postmasterPid(spec), pid);
    assert.equal(await ask(driver, ref, 'select 1'), 1);
  });
});
function sourceOf(name: string): string {
  return name.endsWith('_file') ? 'override' : 'command line';
}
