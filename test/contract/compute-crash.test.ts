import assert from 'node:assert/strict';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { after, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { ask, openComputes, processesOf, serversOf } from '../support/computes.ts';
import { seededRandom, testSeed } from '../support/random.ts';
import { until } from '../support/until.ts';

const ROUNDS = 15;
/** A start takes about half of this. */
const LATEST_MS = 100;

const computes = await openComputes();
const { driver } = computes;
after(() => computes[Symbol.asyncDispose]());

test('a caller killed at any moment of a start leaves what the next one can go on with', async () => {
  const seed = testSeed();
  console.log(`seed ${seed}`);
  const random = seededRandom(seed);
  const spec = await computes.newSpec(17);
  const ref = { driver: 'process', id: spec.id };
  for (let round = 0; round < ROUNDS; round += 1) {
    const caller = computes.callFromOutside(spec);
    const gone = once(caller, 'exit');
    await once(caller.stdout!, 'data');
    await delay(random() * LATEST_MS);
    caller.kill('SIGKILL');
    await gone;
    const next = computes.newDriver();
    const what = ['run', 'stop', 'remove'][Math.floor(random() * 3)]!;
    const context = `seed ${seed}, round ${round}, ${what}`;
    if (what === 'run') {
      await next.ensureRunning(spec);
      assert.equal(await ask(next, ref, 'select 1'), 1, context);
      // One that was started too late finds the volume taken and ends by itself.
      await until(async () => (await serversOf(spec)).length === 1, { what: `one server to be left (${context})` });
      assert.equal((await next.observe(ref)).state, 'running', context);
    } else {
      // A server whose program had not begun when its caller was killed shows up in the list a moment later.
      for (const stray of await next.list()) await next.ensureStopped(stray, 'staged');
      await (what === 'stop' ? next.ensureStopped(ref, 'staged') : next.ensureRemoved(ref));
      assert.deepEqual(await processesOf(spec), [], context);
      assert.equal((await next.observe(ref)).state, 'stopped', context);
      if (what === 'remove') assert.ok(!existsSync(next.socketDirectory(spec.id)), context);
    }
  }
  await driver.ensureRunning(spec);
  assert.equal(await ask(driver, ref, 'select 1'), 1);
});
