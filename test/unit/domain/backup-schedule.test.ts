import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { type BackupTime, backupTimeProblem, lastDueTime } from '../../../src/domain/backup-schedule.ts';

const due = (at: BackupTime, now: string) => lastDueTime(at, new Date(now)).toISOString().replace('.000', '');

describe('the newest time at which a snapshot is due', () => {
  it('is the last full hour', () => {
    assert.equal(due({ frequency: 'hourly' }, '2026-11-21T20:59:59.999Z'), '2026-11-21T20:00:00Z');
    assert.equal(due({ frequency: 'hourly', hour: 3 }, '2026-11-21T20:00:00Z'), '2026-11-21T20:00:00Z');
  });

  it("is today's or yesterday's hour, over the turn of a year too", () => {
    assert.equal(due({ frequency: 'daily', hour: 3 }, '2026-11-21T03:00:00Z'), '2026-11-21T03:00:00Z');
    assert.equal(due({ frequency: 'daily', hour: 3 }, '2026-11-21T02:59:59Z'), '2026-11-20T03:00:00Z');
    assert.equal(due({ frequency: 'daily', hour: 23 }, '2026-01-01T05:00:00Z'), '2025-12-31T23:00:00Z');
    assert.equal(due({ frequency: 'daily' }, '2026-11-21T00:00:00Z'), '2026-11-21T00:00:00Z');
  });

  it('is a day of the week, of which Monday is the first', () => {
    // 2026-11-21 is a Saturday.
    assert.equal(due({ frequency: 'weekly' }, '2026-11-21T12:00:00Z'), '2026-11-16T00:00:00Z');
    assert.equal(due({ frequency: 'weekly', day: 6, hour: 12 }, '2026-11-21T12:00:00Z'), '2026-11-21T12:00:00Z');
    assert.equal(due({ frequency: 'weekly', day: 6, hour: 13 }, '2026-11-21T12:00:00Z'), '2026-11-14T13:00:00Z');
    assert.equal(due({ frequency: 'weekly', day: 7 }, '2026-11-21T12:00:00Z'), '2026-11-15T00:00:00Z');
  });

  it('is a day of the month, or the last where a month is shorter', () => {
    assert.equal(due({ frequency: 'monthly', day: 31 }, '2026-11-30T00:00:00Z'), '2026-11-30T00:00:00Z');
    assert.equal(due({ frequency: 'monthly', day: 31 }, '2026-11-29T23:00:00Z'), '2026-10-31T00:00:00Z');
    assert.equal(due({ frequency: 'monthly', day: 30 }, '2028-03-01T00:00:00Z'), '2028-02-29T00:00:00Z');
    assert.equal(due({ frequency: 'monthly' }, '2026-01-01T00:00:00Z'), '2026-01-01T00:00:00Z');
  });

  it('is a day of the year', () => {
    const leapDay = { frequency: 'yearly', month: 2, day: 29, hour: 1 } as const;
    assert.equal(due(leapDay, '2027-12-01T00:00:00Z'), '2027-02-28T01:00:00Z');
    assert.equal(due(leapDay, '2028-12-01T00:00:00Z'), '2028-02-29T01:00:00Z');
    assert.equal(due({ frequency: 'yearly' }, '2026-11-21T00:00:00Z'), '2026-01-01T00:00:00Z');
    assert.equal(due({ frequency: 'yearly', month: 12 }, '2026-11-21T00:00:00Z'), '2025-12-01T00:00:00Z');
  });

  it('never lies ahead, and never goes back while the clock goes on', () => {
    const lines: BackupTime[] = [
      { frequency: 'hourly' },
      { frequency: 'daily', hour: 5 },
      { frequency: 'weekly', day: 3, hour: 7 },
      { frequency: 'monthly', day: 31, hour: 23 },
      { frequency: 'yearly', month: 2, day: 29 },
    ];
    for (const line of lines) {
      let before = new Date(0);
      for (let now = Date.UTC(2027, 10, 1); now < Date.UTC(2029, 2, 3); now += 3_540_000) {
        const time = lastDueTime(line, new Date(now));
        assert.ok(time.getTime() <= now && time >= before, `${line.frequency} at ${new Date(now).toISOString()}`);
        assert.deepEqual(lastDueTime(line, time), time, 'a due time is due at itself');
        before = time;
      }
    }
  });
});

it('a week has seven days, a month as many as it has', () => {
  assert.match(backupTimeProblem({ frequency: 'weekly', day: 8 })!, /1 \(Monday\) to 7/);
  assert.equal(backupTimeProblem({ frequency: 'weekly', day: 7 }), undefined);
  assert.equal(backupTimeProblem({ frequency: 'monthly', day: 31 }), undefined);
});
