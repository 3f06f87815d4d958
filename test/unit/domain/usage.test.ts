import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { exceededQuota, type ProjectUsage, periodOf, storedInPeriod, usedInPeriod } from '../../../src/domain/usage.ts';

const USAGE: ProjectUsage = {
  period_start: '2026-11-01T00:00:00+00:00',
  active_us: 3_599_999_999,
  compute_us: 900_000_000,
  written_bytes: 17,
  sent_bytes: 4_096,
  storage_bytes: 1_000,
  storage_byte_seconds: 7_200_000,
  storage_at: '2026-11-10T00:00:00+00:00',
};
const NOW = new Date('2026-11-10T02:00:00Z');

describe('what was used in a month', () => {
  it('is a calendar month in UTC, of any length', () => {
    const bounds = (text: string) => {
      const { start, end } = periodOf(new Date(text));
      return [start.toISOString(), end.toISOString()];
    };
    assert.deepEqual(bounds('2028-02-29T23:59:59.999Z'), ['2028-02-01T00:00:00.000Z', '2028-03-01T00:00:00.000Z']);
    assert.deepEqual(bounds('2026-12-31T23:30:00-02:00'), ['2027-01-01T00:00:00.000Z', '2027-02-01T00:00:00.000Z']);
  });

  it('is told in whole seconds, rounded down', () => {
    assert.deepEqual(usedInPeriod(USAGE, NOW), {
      active_time_seconds: 3_599,
      compute_time_seconds: 900,
      written_data_bytes: 17,
      data_transfer_bytes: 4_096,
    });
  });

  it('is nothing in the next month, and where nothing was ever used', () => {
    const nothing = { active_time_seconds: 0, compute_time_seconds: 0, written_data_bytes: 0, data_transfer_bytes: 0 };
    assert.deepEqual(usedInPeriod(USAGE, new Date('2026-12-01T00:00:00Z')), nothing);
    assert.deepEqual(usedInPeriod(null, NOW), nothing);
  });
});

describe('what was stored in a month', () => {
  it('goes on with time, whether anything changes or not', () => {
    assert.equal(storedInPeriod(USAGE, new Date(USAGE.storage_at)), 2_000);
    assert.equal(storedInPeriod(USAGE, NOW), 4_000);
  });

  it('begins anew with the next month, at the month', () => {
    assert.equal(storedInPeriod(USAGE, new Date('2026-12-01T03:00:00Z')), 3_000);
  });

  it('is not less than before when the clock was set back', () => {
    assert.equal(storedInPeriod(USAGE, new Date('2026-11-09T00:00:00Z')), 2_000);
  });
});

describe('a quota', () => {
  const exceeded = (quota: object | undefined, logical_bytes = 0, now = NOW) =>
    exceededQuota(quota, USAGE, { now, logical_bytes });

  it('is used up when as much was used as it allows', () => {
    assert.deepEqual(exceeded({ compute_time_seconds: 900 }), { name: 'compute_time_seconds', used: 900, limit: 900 });
    assert.equal(exceeded({ compute_time_seconds: 901 }), undefined);
    assert.equal(exceeded({ data_transfer_bytes: 1 })?.name, 'data_transfer_bytes');
  });

  it('of 0, or that is not there, is no limit', () => {
    assert.equal(exceeded({ active_time_seconds: 0, written_data_bytes: 0 }), undefined);
    assert.equal(exceeded({}), undefined);
    assert.equal(exceeded(undefined), undefined);
  });

  it('begins anew with the next month, but for that of size', () => {
    const december = new Date('2026-12-01T00:00:00Z');
    assert.equal(exceeded({ active_time_seconds: 1 }, 0, december), undefined);
    assert.equal(exceeded({ logical_size_bytes: 100 }, 100, december)?.name, 'logical_size_bytes');
    assert.equal(exceeded({ logical_size_bytes: 101 }, 100, december), undefined);
  });
});
