import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { findSerialOrder, type Model } from '../../support/serial-order.ts';

interface Call {
  readonly began: number;
  readonly ended: number;
  /** Of a place for one value: what was written, or what was read. */
  readonly write?: number;
  readonly read?: number;
}

const register: Model<number, Call> = {
  initial: 0,
  step: (state, { write, read }) => {
    if (write !== undefined) return write;
    return read === state ? state : undefined;
  },
};

describe('an order of calls that were under way at once', () => {
  it('is found when one explains every answer', () => {
    const write = { began: 1, ended: 6, write: 1 };
    const before = { began: 2, ended: 4, read: 0 };
    const after = { began: 3, ended: 5, read: 1 };
    const { order, left } = findSerialOrder([write, after, before], register);
    assert.deepEqual([order, left], [[before, write, after], []]);
  });

  it('is not found when an old value was read after a new one', () => {
    const write = { began: 1, ended: 7, write: 1 };
    const after = { began: 2, ended: 3, read: 1 };
    const before = { began: 4, ended: 6, read: 0 };
    assert.deepEqual(findSerialOrder([write, after, before], register).left, [before]);
  });

  it('does not put a call before one that had ended when it began', () => {
    const write = { began: 1, ended: 2, write: 1 };
    const stale = { began: 3, ended: 4, read: 0 };
    assert.deepEqual(findSerialOrder([write, stale], register).left, [stale]);
  });

  it('is found among very many calls', () => {
    const calls = Array.from({ length: 300 }, (_, at) => {
      const value = Math.floor(at / 3);
      return { began: at, ended: at + 6, ...(at % 3 === 0 ? { write: value } : { read: value }) };
    });
    assert.equal(findSerialOrder(calls, register).order.length, calls.length);
  });
});
