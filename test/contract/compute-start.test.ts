import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, chownSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import { ComputeStartError } from '../../src/drivers/compute/contract.ts';
import { createProcessDriver } from '../../src/drivers/compute/process/driver.ts';
import { ask, openComputes, postmasterPid, processesOf } from '../support/computes.ts';
import { MAJORS } from '../support/postgres.ts';
import { until } from '../support/until.ts';

const computes = await openComputes();
const { driver } = computes;
after(() => computes[Symbol.asyncDispose]());

async function failure(start: Promise<unknown>): Promise<ComputeStartError> {
  const error = await start.then(
    () => assert.fail('it started'),
    (reason) => reason,
  );
  assert.ok(error instanceof ComputeStartError, String(error));
  return error;
}

for (const major of MAJORS) {
  describe(`a start on Postgres ${major} that fails`, () => {
    test('names the setting that is wrong, from this start only, and leaves nothing', async () => {
      const spec = await computes.newSpec(major, { conf: 'no_such_setting = 1\n' });
      const error = await failure(driver.ensureRunning(spec));
      assert.match(error.message, new RegExp(`^compute ${spec.id} could not start: .*exit code 1`));
      assert.match(error.log.join('\n'), /no_such_setting/);
      assert.deepEqual(await processesOf(spec), []);
      assert.deepEqual(await driver.observe({ driver: 'process', id: spec.id }), { state: 'stopped', crashed: false });
      const other = { ...spec, files: { ...spec.files, 'postgresql.conf': 'shared_buffers = lots\n' } };
      const later = await failure(driver.ensureRunning(other));
      assert.match(later.log.join('\n'), /shared_buffers/);
      assert.doesNotMatch(later.log.join('\n'), /no_such_setting/);
      const right = { ...spec, files: { ...spec.files, 'postgresql.conf': '' } };
      await driver.ensureRunning(right);
      assert.equal(await ask(driver, spec, 'select 1'), 1);
    });

    test('says that the data directory is not the server’s', async () => {
      const spec = await computes.newSpec(major);
      chmodSync(spec.data_directory, 0o777);
      const error = await failure(driver.ensureRunning(spec));
      assert.match(error.message, /invalid permissions/);
      chmodSync(spec.data_directory, 0o700);
      if (spec.owner) {
        chownSync(spec.data_directory, 0, 0);
        assert.match((await failure(driver.ensureRunning(spec))).message, /Permission denied|wrong ownership/);
        chownSync(spec.data_directory, spec.owner.uid, spec.owner.gid);
      }
      await driver.ensureRunning(spec);
    });

    test('ends at the deadline, with everything that it had started', async () => {
      // Recovery asks for WAL that takes forever to come.
      const conf = `restore_command = 'sleep 1000'\nrecovery_target_timeline = 'current'\n`;
      const spec = await computes.newSpec(major, { conf });
      writeFileSync(join(spec.data_directory, 'recovery.signal'), '', { mode: 0o644 });
      const deadline = new AbortController();
      const starting = failure(driver.ensureRunning(spec, deadline.signal));
      const said = async () => (await driver.tailLog({ driver: 'process', id: spec.id }, 100)).join('\n');
      await until(async () => /starting/.test(await said()), { what: 'the server to begin' });
      deadline.abort();
      const error = await starting;
      assert.match(error.message, /not ready in time/);
      assert.match(error.log.join('\n'), /starting/);
      assert.deepEqual(await processesOf(spec), []);
      assert.ok(!(await driver.list()).some(({ id }) => id === spec.id));
    });
  });
}

describe('a start', () => {
  test('that waits for its turn ends at its deadline, too', async () => {
    const conf = `restore_command = 'sleep 1000'\nrecovery_target_timeline = 'current'\n`;
    const spec = await computes.newSpec(17, { conf });
    writeFileSync(join(spec.data_directory, 'recovery.signal'), '', { mode: 0o644 });
    const first = new AbortController();
    const starting = failure(driver.ensureRunning(spec, first.signal));
    await failure(driver.ensureRunning(spec, AbortSignal.timeout(100)));
    first.abort();
    await starting;
    assert.deepEqual(await processesOf(spec), []);
  });

  test('fails by name where there is no such Postgres', async () => {
    const spec = await computes.newSpec(17);
    const root = join(computes.directory, 'nowhere');
    const error = await failure(driver.ensureRunning({ ...spec, distribution: { id: 'none', root } }));
    assert.match(error.message, /nowhere\/bin\/postgres does not run.*ENOENT/);
    await driver.ensureRunning(spec);
  });

  test('refuses a run directory that is too long for a socket, and says by how much', async () => {
    const spec = await computes.newSpec(17);
    const runDir = join(computes.directory, 'r'.repeat(80));
    const long = createProcessDriver({ stateDir: computes.stateDir, runDir });
    await assert.rejects(long.ensureRunning(spec), /a path of \d+ bytes, .* at most 107.* shorter by \d+ bytes/);
    assert.throws(() => long.socketDirectory(spec.id), /at most 107/);
    assert.throws(() => driver.socketDirectory('../elsewhere'), /cannot name a compute/);
  });

  test('goes past a stale postmaster.pid whose pid is another process by now, and leaves that process alone', async () => {
    const spec = await computes.newSpec(17);
    const ref = await driver.ensureRunning(spec);
    const file = join(spec.data_directory, 'postmaster.pid');
    const [pid, ...lines] = readFileSync(file, 'utf8').split('\n');
    process.kill(Number(pid), 'SIGKILL');
    await until(async () => (await driver.observe(ref)).state === 'stopped', { what: 'the end of the server' });
    const stranger = spawn('sleep', ['1000'], { ...spec.owner, cwd: '/' });
    try {
      writeFileSync(file, [stranger.pid, ...lines].join('\n'));
      writeFileSync(join(driver.socketDirectory(spec.id), '.s.PGSQL.5432.lock'), [stranger.pid, ...lines].join('\n'));
      const record = join(computes.stateDir, spec.id, 'record.json');
      writeFileSync(record, readFileSync(record, 'utf8').replace(`"pid":${pid}`, `"pid":${stranger.pid}`));
      assert.equal((await driver.observe(ref)).state, 'stopped');
      await driver.ensureRunning(spec);
      assert.equal(await ask(driver, ref, 'select 1'), 1);
      assert.notEqual(postmasterPid(spec), stranger.pid);
      assert.equal(stranger.exitCode ?? stranger.signalCode, null);
    } finally {
      stranger.kill('SIGKILL');
      await once(stranger, 'exit');
    }
  });

  test('does not end another compute’s server on the same volume', async () => {
    const spec = await computes.newSpec(17);
    await driver.ensureRunning(spec);
    const error = await failure(driver.ensureRunning({ ...spec, id: 'ep-second' }));
    assert.match(error.message, /postmaster\.pid.*already exists/);
    assert.equal(await ask(driver, spec, 'select 1'), 1);
    await driver.ensureStopped({ driver: 'process', id: 'ep-second' }, 'immediate');
    assert.equal(await ask(driver, spec, 'select 1'), 1);
  });

  test('counts as done where a standby takes no connections', async () => {
    const spec = await computes.newSpec(17, { conf: 'hot_standby = off\n' });
    writeFileSync(join(spec.data_directory, 'standby.signal'), '', { mode: 0o644 });
    const ref = await driver.ensureRunning(spec);
    assert.equal((await driver.observe(ref)).state, 'running');
    await assert.rejects(ask(driver, ref, 'select 1'), { code: '57P03' });
    await driver.ensureStopped(ref, 'staged');
    assert.deepEqual(await processesOf(spec), []);
  });
});
