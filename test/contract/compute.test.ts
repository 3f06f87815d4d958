import assert from 'node:assert/strict';
import { chownSync, existsSync, readdirSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import type pg from 'pg';
import { ask, enter, openComputes, postmasterPid, processesOf, serversOf } from '../support/computes.ts';
import { MAJORS } from '../support/postgres.ts';
import { until } from '../support/until.ts';

const computes = await openComputes();
const { driver } = computes;
after(() => computes[Symbol.asyncDispose]());

for (const major of MAJORS) {
  describe(`a compute on Postgres ${major}`, () => {
    test('runs after ensureRunning, and a second call finds the same server', async () => {
      const spec = await computes.newSpec(major);
      const ref = await driver.ensureRunning(spec);
      assert.deepEqual(ref, { driver: 'process', id: spec.id });
      assert.equal(await ask(driver, ref, 'select 1'), 1);
      const pid = postmasterPid(spec);
      assert.deepEqual(await driver.ensureRunning(spec), ref);
      assert.equal(postmasterPid(spec), pid);
      const { state, started_at } = await driver.observe(ref);
      assert.equal(state, 'running');
      assert.ok(Math.abs(started_at!.getTime() - Date.now()) < 60_000, `started at ${started_at?.toISOString()}`);
    });

    test('is started once by callers that come together', async () => {
      const spec = await computes.newSpec(major);
      const other = computes.newDriver();
      await Promise.all([driver, driver, other, other].map((one) => one.ensureRunning(spec)));
      assert.equal(await ask(driver, spec, 'select 1'), 1);
      const running = (await driver.list()).filter(({ id }) => id === spec.id);
      assert.equal(running.length, 1);
      // A driver that came second may have started one, which finds the volume taken and ends by itself.
      await until(async () => (await serversOf(spec)).length === 1, { what: 'one server to be left' });
    });

    test('has no process after ensureStopped, twice, and starts again with its data', async () => {
      const spec = await computes.newSpec(major);
      const ref = await driver.ensureRunning(spec);
      await ask(driver, ref, 'create table kept as select 42 as answer');
      for (const mode of ['staged', 'staged', 'immediate'] as const) {
        await driver.ensureStopped(ref, mode);
        assert.deepEqual(await processesOf(spec), []);
        assert.deepEqual(await driver.observe(ref), { state: 'stopped', crashed: false });
      }
      await driver.ensureRunning(spec);
      assert.equal(await ask(driver, ref, 'select answer from kept'), 42);
      await driver.ensureStopped(ref, 'immediate');
      assert.deepEqual(await processesOf(spec), []);
      assert.deepEqual(await driver.observe(ref), { state: 'stopped', crashed: false });
      await driver.ensureRunning(spec);
      assert.equal(await ask(driver, ref, 'select answer from kept'), 42);
    });

    test('reads new files without a restart', async () => {
      const spec = await computes.newSpec(major);
      const ref = await driver.ensureRunning(spec);
      const pid = postmasterPid(spec);
      const files = { ...spec.files, 'postgresql.conf': `${spec.files['postgresql.conf']}work_mem = 7MB\n` };
      for (const _ of [1, 2]) {
        await driver.ensureConfigured(ref, files);
        assert.equal(await ask(driver, ref, 'show work_mem'), '7MB');
      }
      await driver.ensureConfigured(ref, { ...files, 'pg_hba.conf': 'local all all reject\n' });
      await assert.rejects(ask(driver, ref, 'select 1'), { code: '28000' });
      assert.equal(postmasterPid(spec), pid);
    });

    for (const hot_standby of ['off', 'on']) {
      test(`ends a recovery when it is promoted, with hot_standby ${hot_standby}, and stays what it is then`, async () => {
        const spec = await computes.newSpec(major, { conf: `hot_standby = ${hot_standby}\n` });
        const signal = join(spec.data_directory, 'standby.signal');
        writeFileSync(signal, '');
        const { uid, gid } = statSync(spec.data_directory);
        chownSync(signal, uid, gid);
        const ref = await driver.ensureRunning(spec);
        const pid = postmasterPid(spec);
        if (hot_standby === 'on') assert.equal(await ask(driver, ref, 'select pg_is_in_recovery()'), true);
        else await assert.rejects(ask(driver, ref, 'select 1'), { code: '57P03' });
        for (const _ of [1, 2]) {
          await driver.ensurePromoted(ref);
          assert.equal(await ask(driver, ref, 'select pg_is_in_recovery()'), false);
        }
        assert.equal(postmasterPid(spec), pid);
        assert.deepEqual(
          ['promote', 'standby.signal'].filter((name) => existsSync(join(spec.data_directory, name))),
          [],
        );
      });
    }

    test('says so when it is to be promoted and does not run', async () => {
      const spec = await computes.newSpec(major);
      await assert.rejects(driver.ensurePromoted({ driver: 'process', id: spec.id }), /does not run/);
    });

    test('lets go of its clients when it is stopped in the middle of a transaction', async () => {
      const spec = await computes.newSpec(major);
      const ref = await driver.ensureRunning(spec);
      await using client = await enter(driver, ref);
      await client.query('begin; create table half_done (); select 1');
      const ended = new Promise<Error>((resolve) => client.on('error', resolve));
      await driver.ensureStopped(ref, 'staged');
      assert.equal(((await ended) as pg.DatabaseError).code, '57P01');
      await driver.ensureRunning(spec);
      assert.equal(await ask(driver, ref, `select to_regclass('half_done')`), null);
    });

    test('is seen to have crashed when its server was killed, and recovers', async () => {
      const spec = await computes.newSpec(major);
      const ref = await driver.ensureRunning(spec);
      await ask(driver, ref, 'create table kept as select 42 as answer');
      const ended = new Promise((resolve) => driver.onExit(({ id }) => id === ref.id && resolve(id)));
      process.kill(postmasterPid(spec), 'SIGKILL');
      await ended;
      assert.deepEqual(await driver.observe(ref), { state: 'stopped', crashed: true });
      await assert.rejects(driver.dial(ref), { code: 'ECONNREFUSED' });
      await driver.ensureRunning(spec);
      assert.equal(await ask(driver, ref, 'select answer from kept'), 42);
      assert.equal((await driver.observe(ref)).state, 'running');
    });

    test('leaves nothing after ensureRemoved, twice, running or killed', async () => {
      for (const how of ['running', 'killed', 'stopped']) {
        const spec = await computes.newSpec(major);
        const ref = await driver.ensureRunning(spec);
        if (how === 'killed') process.kill(postmasterPid(spec), 'SIGKILL');
        if (how === 'stopped') await driver.ensureStopped(ref, 'staged');
        for (const _ of [1, 2]) {
          await driver.ensureRemoved(ref);
          assert.deepEqual(await processesOf(spec), []);
          assert.ok(!readdirSync(computes.stateDir).includes(spec.id));
          assert.ok(!readdirSync(computes.runDir).includes(spec.id));
          assert.deepEqual(await driver.observe(ref), { state: 'stopped' });
          assert.deepEqual(await driver.tailLog(ref, 10), []);
          await assert.rejects(driver.dial(ref), { code: 'ENOENT' });
        }
        assert.ok(existsSync(spec.data_directory), 'the volume is not the driver’s');
        await driver.ensureStopped(ref, 'staged');
        await driver.ensureResized(ref, 1);
        await driver.ensureConfigured(ref, spec.files);
      }
    });

    test('tells when its server ends, whether it was started here or adopted', async () => {
      const spec = await computes.newSpec(major);
      const ref = await driver.ensureRunning(spec);
      const other = computes.newDriver();
      await other.ensureRunning(spec);
      const told = new Set<string>();
      const forget = [
        driver.onExit(({ id }) => told.add(`starter ${id}`)),
        other.onExit(({ id }) => told.add(`adopter ${id}`)),
      ];
      const unheard = driver.onExit(() => told.add('a listener that went away'));
      unheard();
      await ask(driver, ref, 'select 1');
      process.kill(postmasterPid(spec), 'SIGINT');
      await until(() => told.size === 2, { what: 'both drivers to tell' });
      assert.deepEqual([...told].sort(), [`adopter ${ref.id}`, `starter ${ref.id}`]);
      for (const stop of forget) stop();
      // It was not our stop, but it was a clean one.
      assert.deepEqual(await driver.observe(ref), { state: 'stopped', crashed: false });
    });
  });
}
