import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import type { ComputeRef, ComputeSpec } from '../../src/drivers/compute/contract.ts';
import { ask, enter, openComputes, postmasterPid, processesOf } from '../support/computes.ts';
import { MAJORS } from '../support/postgres.ts';
import { until } from '../support/until.ts';

// Long enough that no stage ends before it has done its work, and shorter than what people are given.
const computes = await openComputes({ stop_deadlines: { fast_ms: 1000, without_replicas_ms: 20_000 } });
const hasty = computes.newDriver({ stop_deadlines: { fast_ms: 200, without_replicas_ms: 200, immediate_ms: 200 } });
const { driver } = computes;
after(() => computes[Symbol.asyncDispose]());

const log = async (ref: ComputeRef): Promise<string> => (await driver.tailLog(ref, 200)).join('\n');

/** A backend that works and does not look whether anybody still wants it to. */
async function keepBusy(spec: ComputeSpec): Promise<number> {
  const client = await enter(driver, spec);
  const { rows } = await client.query('select pg_backend_pid() as pid');
  client.query(`do $$ begin loop end loop; end $$`).catch(() => undefined);
  await until(
    async () => (await ask(driver, spec, `select state from pg_stat_activity where pid = ${rows[0].pid}`)) === 'active',
    {
      what: 'the backend to work',
    },
  );
  return rows[0].pid;
}

for (const major of MAJORS) {
  describe(`stopping Postgres ${major}`, () => {
    test('is clean although a streaming replica has frozen', async () => {
      const hba = 'local all all peer map=coppice\nlocal replication all trust\n';
      const primary = await computes.newSpec(major, { hba, conf: 'wal_sender_timeout = 0\n' });
      const first = await computes.newSpec(major, { from: primary });
      const host = driver.socketDirectory(primary.id);
      const replica = {
        ...first,
        files: {
          ...first.files,
          'postgresql.conf': `${first.files['postgresql.conf']}primary_conninfo = 'host=${host} user=cloud_admin'\n`,
        },
      };
      writeFileSync(join(replica.data_directory, 'standby.signal'), '', { mode: 0o644 });
      const ref = await driver.ensureRunning(primary);
      await driver.ensureRunning(replica);
      const receivers = async () => (await processesOf(replica)).filter(({ title }) => /walreceiver/.test(title));
      const streams = async () => (await ask(driver, primary, 'select count(*)::int from pg_stat_replication')) === 1;
      await until(async () => (await receivers()).length === 1 && (await streams()), { what: 'the replica to stream' });
      const [receiver] = await receivers();
      process.kill(receiver!.pid, 'SIGSTOP');
      try {
        await ask(driver, primary, 'create table unseen as select generate_series(1, 1000)');
        await driver.ensureStopped(ref, 'staged');
      } finally {
        process.kill(receiver!.pid, 'SIGCONT');
      }
      assert.deepEqual(await processesOf(primary), []);
      assert.match(await log(ref), /database system is shut down/);
      assert.match(await log(ref), /terminating connection due to administrator command/);
      assert.doesNotMatch(await log(ref), /immediate shutdown request/);
      await driver.ensureRunning(primary);
      assert.equal(await ask(driver, primary, 'select count(*)::int from unseen'), 1000);
      assert.doesNotMatch(await log(ref), /not properly shut down/);
      await driver.ensureRemoved({ driver: 'process', id: replica.id });
    });

    test('goes as far as killing what does not answer, and loses nothing', async () => {
      const spec = await computes.newSpec(major);
      const ref = await driver.ensureRunning(spec);
      await ask(driver, ref, 'create table kept as select 42 as answer');
      process.kill(postmasterPid(spec), 'SIGSTOP');
      await hasty.ensureStopped(ref, 'staged');
      assert.deepEqual(await processesOf(spec), []);
      assert.deepEqual(await driver.observe(ref), { state: 'stopped', crashed: false });
      await driver.ensureRunning(spec);
      assert.equal(await ask(driver, ref, 'select answer from kept'), 42);
    });

    test('ends a backend that outlived its server', async () => {
      const spec = await computes.newSpec(major);
      const ref = await driver.ensureRunning(spec);
      const busy = await keepBusy(spec);
      process.kill(postmasterPid(spec), 'SIGKILL');
      const others = async () => (await processesOf(spec)).filter(({ pid }) => pid !== busy);
      await until(async () => (await others()).length === 0, { what: 'the idle children to notice' });
      assert.ok(
        (await driver.list()).some(({ id }) => id === spec.id),
        'what is left of it is listed',
      );
      assert.deepEqual(await driver.observe(ref), { state: 'stopped', crashed: true });
      await driver.ensureStopped(ref, 'staged');
      assert.deepEqual(await processesOf(spec), []);
    });

    test('is not needed for the next start, which ends that backend, too', async () => {
      const spec = await computes.newSpec(major);
      const ref = await driver.ensureRunning(spec);
      const busy = await keepBusy(spec);
      process.kill(postmasterPid(spec), 'SIGKILL');
      await until(async () => (await driver.observe(ref)).state === 'stopped', { what: 'the end of the server' });
      assert.ok((await processesOf(spec)).some(({ pid }) => pid === busy));
      await driver.ensureRunning(spec);
      assert.ok(!(await processesOf(spec)).some(({ pid }) => pid === busy));
      assert.equal(await ask(driver, ref, 'select 1'), 1);
    });
  });
}

test('a server that is being stopped is waited for by the next start', async () => {
  const spec = await computes.newSpec(17);
  const ref = await driver.ensureRunning(spec);
  const before = postmasterPid(spec);
  await using client = await enter(driver, ref);
  await client.query('begin');
  // Smart shutdown: it waits for its clients.
  process.kill(before, 'SIGTERM');
  await until(async () => /received smart shutdown request/.test(await log(ref)), { what: 'the shutdown to begin' });
  await driver.ensureRunning(spec);
  assert.notEqual(postmasterPid(spec), before);
  assert.equal(await ask(driver, ref, 'select 1'), 1);
});
