import assert from 'node:assert/strict';
import { getEventListeners } from 'node:events';
import { describe, it } from 'node:test';
import { whenAborted } from '../../src/gateway/when-aborted.ts';

describe('waiting for a signal', () => {
  it('has each work done once, but for what was taken back', () => {
    const controller = new AbortController();
    const done: number[] = [];
    whenAborted(controller.signal, () => done.push(1));
    const forget = whenAborted(controller.signal, () => done.push(2));
    whenAborted(controller.signal, () => done.push(3));
    forget();
    controller.abort();
    assert.deepEqual(done, [1, 3]);
  });

  it('listens once for all, and not at all when nobody waits any more', () => {
    const { signal } = new AbortController();
    const listeners = () => getEventListeners(signal, 'abort').length;
    const [first, second] = [whenAborted(signal, () => undefined), whenAborted(signal, () => undefined)];
    assert.equal(listeners(), 1);
    first();
    first();
    assert.equal(listeners(), 1);
    second();
    assert.equal(listeners(), 0);
    const again = whenAborted(signal, () => undefined);
    // What was taken back before takes nothing from who came later.
    first();
    assert.equal(listeners(), 1);
    again();
    assert.equal(listeners(), 0);
  });
});
