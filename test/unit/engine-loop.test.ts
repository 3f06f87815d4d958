import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { startLoop } from '../../src/engine/loop.ts';
import type { Log } from '../../src/watch/log-fields.ts';

const INTERVAL_MS = 1_000;
const REST_MS = 30_000;

describe('a chore that is run again and again', () => {
  /** A loop whose rounds end with what `watched` says, on a clock of its own. */
  const begin = (t: { mock: { timers: typeof import('node:test').mock.timers } }, watched: () => unknown) => {
    t.mock.timers.enable({ apis: ['setTimeout'] });
    const errors: unknown[] = [];
    let rounds = 0;
    const logger = { error: (fields: unknown) => errors.push(fields) } as unknown as Log;
    const loop = startLoop({ name: 'test', interval_ms: INTERVAL_MS, rest_ms: REST_MS, logger }, async () => {
      rounds += 1;
      return watched();
    });
    const after = async (ms: number) => {
      t.mock.timers.tick(ms);
      await turn();
      return rounds;
    };
    return { loop, after, errors };
  };

  it('comes in its interval while there is something to watch', async (t) => {
    const { loop, after } = begin(t, () => true);
    assert.deepEqual([await after(INTERVAL_MS), await after(INTERVAL_MS)], [1, 2]);
    await loop.stop();
    assert.equal(await after(REST_MS), 2);
  });

  it('rests when there is nothing, until something is heard or the rest is over', async (t) => {
    const { loop, after } = begin(t, () => false);
    assert.equal(await after(INTERVAL_MS), 1);
    assert.equal(await after(REST_MS - 1), 1);
    assert.equal(await after(1), 2);
    loop.hear();
    loop.hear();
    assert.equal(await after(INTERVAL_MS - 1), 2);
    assert.equal(await after(1), 3);
    assert.equal(await after(INTERVAL_MS), 3, 'what is heard brings one round, not two');
    await loop.stop();
  });

  it('does not rest on what it saw before something was heard', async (t) => {
    const { loop, after } = begin(t, () => {
      loop.hear();
      return false;
    });
    assert.deepEqual([await after(INTERVAL_MS), await after(INTERVAL_MS)], [1, 2]);
    await loop.stop();
  });

  it('goes on after a round that failed, and says so', async (t) => {
    const { loop, after, errors } = begin(t, () => {
      throw new Error('broken');
    });
    assert.deepEqual([await after(INTERVAL_MS), await after(INTERVAL_MS)], [1, 2]);
    assert.equal(errors.length, 2);
    await loop.stop();
  });
});
