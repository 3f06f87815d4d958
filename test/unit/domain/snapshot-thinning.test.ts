import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { spareSnapshots } from '../../../src/domain/snapshot-thinning.ts';
import { seededRandom, testSeed } from '../../support/random.ts';

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;
const NOW = new Date('2026-03-05T12:34:56Z');
const WEEK = { now: NOW, retention_seconds: 7 * 86_400 };

/** Snapshots of these ages, oldest first. */
const aged = (...ages_ms: number[]) =>
  ages_ms.sort((a, b) => b - a).map((age_ms) => ({ age_ms, taken_at: new Date(NOW.getTime() - age_ms) }));
const kept = <S extends { taken_at: Date }>(snapshots: S[], window = WEEK): S[] => {
  const spare = new Set(spareSnapshots(snapshots, window));
  return snapshots.filter((snapshot) => !spare.has(snapshot));
};
const every = (step_ms: number, from_ms: number, to_ms: number): number[] =>
  Array.from({ length: Math.ceil((to_ms - from_ms) / step_ms) }, (_, index) => from_ms + index * step_ms);

describe('thinning of snapshots', () => {
  test('keeps all of the last quarter of an hour, and one for each five minutes of the last hour', () => {
    const last = aged(...every(20_000, 0, 15 * MINUTE_MS));
    assert.deepEqual(kept(last), last);
    const ages = kept(aged(...every(20_000, 0, HOUR_MS))).map(({ age_ms }) => age_ms);
    assert.equal(ages.filter((age_ms) => age_ms <= 15 * MINUTE_MS).length, last.length + 1);
    const before = ages.filter((age_ms) => age_ms > 15 * MINUTE_MS).length;
    assert.ok([9, 10].includes(before), `${before} before`);
  });

  test('keeps one for each hour of the last day, and one for each day before', () => {
    const snapshots = aged(...every(5 * MINUTE_MS, 0, 6 * DAY_MS));
    const ages = kept(snapshots).map(({ age_ms }) => age_ms);
    const between = (from_ms: number, to_ms: number) => ages.filter((age) => age > from_ms && age <= to_ms).length;
    // Hours and days are those of the clock, so that their first and last are cut.
    assert.ok([23, 24].includes(between(HOUR_MS, DAY_MS)), `${between(HOUR_MS, DAY_MS)} of the day`);
    assert.ok([5, 6].includes(between(DAY_MS, 6 * DAY_MS)), `${between(DAY_MS, 6 * DAY_MS)} before`);
  });

  test('keeps the newest one that is as old as the window, and nothing older', () => {
    const snapshots = aged(30 * DAY_MS, 20 * DAY_MS, 8 * DAY_MS, 6 * DAY_MS, MINUTE_MS);
    assert.deepEqual(
      kept(snapshots).map(({ age_ms }) => age_ms),
      [8 * DAY_MS, 6 * DAY_MS, MINUTE_MS],
    );
    const [, , , younger] = snapshots;
    assert.deepEqual(kept(snapshots.slice(3))[0], younger, 'with none as old, the oldest is the floor');
  });

  test('keeps nothing without a window', () => {
    assert.deepEqual(kept(aged(DAY_MS, MINUTE_MS), { now: NOW, retention_seconds: 0 }), []);
  });

  test('goes by positions where the clock was set back', () => {
    // The second was taken after the first, by a clock that was set back by a year meanwhile.
    const [late, early] = [{ taken_at: NOW }, { taken_at: new Date(NOW.getTime() - 365 * DAY_MS) }];
    assert.deepEqual(kept([late, early]), [early]);
  });

  test('of any snapshots, at any time, keeps what a point inside the window is replayed from', () => {
    const seed = testSeed();
    const next = seededRandom(seed);
    for (let round = 0; round < 300; round++) {
      const span_ms = 1 + next() * 40 * DAY_MS;
      const snapshots = aged(...Array.from({ length: 1 + Math.floor(next() * 60) }, () => next() * span_ms));
      const window = { now: NOW, retention_seconds: 1 + Math.floor(next() * 30 * 86_400) };
      const left = kept(snapshots, window);
      const where = `seed ${seed}, round ${round}`;
      const begin_ms = NOW.getTime() - window.retention_seconds * 1000;
      const isOld = ({ taken_at }: { taken_at: Date }) => taken_at.getTime() <= begin_ms;
      assert.equal(left[0], snapshots.findLast(isOld) ?? snapshots[0], `${where}: the floor`);
      assert.equal(left.at(-1), snapshots.at(-1), `${where}: the newest`);
      assert.deepEqual(kept(left, window), left, `${where}: thinning twice is thinning once`);
      for (const snapshot of snapshots.filter((one) => !left.includes(one) && !isOld(one))) {
        const older = left.findLast(({ taken_at }) => taken_at <= snapshot.taken_at);
        const distance_ms = snapshot.taken_at.getTime() - older!.taken_at.getTime();
        assert.ok(distance_ms <= (snapshot.age_ms > DAY_MS ? 2 * DAY_MS : HOUR_MS + DAY_MS), `${where}: a gap`);
      }
      const later = { ...window, now: new Date(NOW.getTime() + next() * 3 * DAY_MS) };
      const afterwards = kept(left, later);
      assert.ok(afterwards.length > 0, `${where}: something is left`);
    }
  });
});
