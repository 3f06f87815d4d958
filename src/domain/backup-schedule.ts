/** When snapshots are made by themselves. All times are UTC, whatever the machine's time zone is. */

export const BACKUP_FREQUENCIES = ['hourly', 'daily', 'weekly', 'monthly', 'yearly'] as const;
export type BackupFrequency = (typeof BACKUP_FREQUENCIES)[number];

/** One line of a schedule. What is left out is the first that there is: hour 0, Monday, the first of the month, January. */
export interface BackupTime {
  readonly frequency: BackupFrequency;
  /** 0 to 23; means nothing for `hourly`. */
  readonly hour?: number | null;
  /** Of the week, 1 (Monday) to 7, for `weekly`; of the month for `monthly` and `yearly`, the last one in shorter months. */
  readonly day?: number | null;
  /** 1 to 12, for `yearly`. */
  readonly month?: number | null;
}

/** Why such a time cannot be; undefined when it can. The ranges of single fields are the schema's. */
export function backupTimeProblem({ frequency, day }: BackupTime): string | undefined {
  if (frequency === 'weekly' && (day ?? 1) > 7) return 'a day of the week is 1 (Monday) to 7';
  return undefined;
}

/** The newest time at or before `now` at which a snapshot is due. */
export function lastDueTime(at: BackupTime, now: Date): Date {
  const [year, month, day] = [now.getUTCFullYear(), now.getUTCMonth(), now.getUTCDate()];
  const hour = at.hour ?? 0;
  switch (at.frequency) {
    case 'hourly':
      return new Date(Date.UTC(year, month, day, now.getUTCHours()));
    case 'daily':
      return newest(now, (back) => Date.UTC(year, month, day - back, hour));
    case 'weekly': {
      const since = (((now.getUTCDay() + 6) % 7) - ((at.day ?? 1) - 1) + 7) % 7;
      return newest(now, (back) => Date.UTC(year, month, day - since - 7 * back, hour));
    }
    case 'monthly':
      return newest(now, (back) => dayOfMonth(year, month - back, at.day ?? 1, hour));
    case 'yearly':
      return newest(now, (back) => dayOfMonth(year - back, (at.month ?? 1) - 1, at.day ?? 1, hour));
  }
}

/** This period's time, or the one before when that is still to come. */
function newest(now: Date, time: (periodsBack: number) => number): Date {
  const current = time(0);
  return new Date(current <= now.getTime() ? current : time(1));
}

function dayOfMonth(year: number, month: number, day: number, hour: number): number {
  const last = new Date(Date.UTC(year, month + 1, 0)).getUTCDate();
  return Date.UTC(year, month, Math.min(day, last), hour);
}
