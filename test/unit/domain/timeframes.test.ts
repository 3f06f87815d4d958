import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { type Granularity, timeframesBetween } from '../../../src/domain/timeframes.ts';

const HOUR_MS = 3_600_000;

describe('timeframes', () => {
  const between = (from: string, to: string, granularity: Granularity, now: string) =>
    timeframesBetween(new Date(from), new Date(to), granularity, new Date(now));
  const starts = (...of: Parameters<typeof between>) => between(...of)?.map(({ start }) => start.toISOString());

  it('are rounded down at both ends', () => {
    assert.deepEqual(starts('2026-11-20T15:30:00Z', '2026-11-22T15:30:00Z', 'daily', '2026-11-22T16:00:00Z'), [
      '2026-11-20T00:00:00.000Z',
      '2026-11-21T00:00:00.000Z',
    ]);
    assert.deepEqual(starts('2026-11-20T15:30:00Z', '2026-11-20T15:59:00Z', 'hourly', '2026-11-20T16:00:00Z'), []);
  });

  it('take a range in any zone for what it is in UTC', () => {
    assert.deepEqual(
      starts('2026-11-20T23:30:00-02:00', '2026-11-21T05:00:00+02:00', 'hourly', '2026-11-21T09:00:00Z'),
      ['2026-11-21T01:00:00.000Z', '2026-11-21T02:00:00.000Z'],
    );
  });

  it('know the leap day', () => {
    assert.deepEqual(starts('2028-02-28T00:00:00Z', '2028-03-01T00:00:00Z', 'daily', '2028-03-02T00:00:00Z'), [
      '2028-02-28T00:00:00.000Z',
      '2028-02-29T00:00:00.000Z',
    ]);
  });

  it('are as long when clocks are changed for the summer', () => {
    const frames = between('2026-03-29T00:00:00+01:00', '2026-03-30T00:00:00+02:00', 'hourly', '2026-03-30T12:00:00Z')!;
    assert.equal(frames.length, 23);
    for (const { start, end } of frames) assert.equal(end.getTime() - start.getTime(), HOUR_MS);
  });

  it('of months go over the end of a year', () => {
    assert.deepEqual(starts('2026-11-15T00:00:00Z', '2027-02-15T00:00:00Z', 'monthly', '2027-02-20T00:00:00Z'), [
      '2026-11-01T00:00:00.000Z',
      '2026-12-01T00:00:00.000Z',
      '2027-01-01T00:00:00.000Z',
    ]);
  });

  it('that have not begun are left out', () => {
    assert.deepEqual(starts('2026-11-22T00:00:00Z', '2030-01-01T00:00:00Z', 'daily', '2026-11-22T16:00:00Z'), [
      '2026-11-22T00:00:00.000Z',
    ]);
  });

  it('reach back 168 hours, 60 days or a year, and not before March 2024', () => {
    const now = '2026-11-22T16:20:00Z';
    const reach = [
      ['hourly', '2026-11-15T16:00:00Z', '2026-11-15T15:59:59Z', 168],
      ['daily', '2026-09-23T00:00:00Z', '2026-09-22T23:59:59Z', 60],
      ['monthly', '2025-11-01T00:00:00Z', '2025-10-31T23:59:59Z', 12],
    ] as const;
    for (const [granularity, first, before, count] of reach) {
      assert.equal(between(first, now, granularity, now)?.length, count, granularity);
      assert.equal(between(before, now, granularity, now), undefined, granularity);
    }
    assert.equal(between('2024-02-29T23:00:00Z', '2024-03-01T05:00:00Z', 'hourly', '2024-03-01T06:00:00Z'), undefined);
  });

  it('do not go backwards', () => {
    assert.equal(between('2026-11-22T05:00:00Z', '2026-11-22T03:00:00Z', 'hourly', '2026-11-22T06:00:00Z'), undefined);
  });
});
