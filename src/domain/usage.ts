/** What was added up of a branch or a project in one calendar month, as JSON. */
export interface Usage {
  /** When that month begins. */
  readonly period_start: string;
  readonly active_us: number;
  /** Active time times the size in CU. */
  readonly compute_us: number;
  readonly written_bytes: number;
  readonly sent_bytes: number;
}

/** What a project stores, beside that. */
export interface ProjectUsage extends Usage {
  /** Data and history of all branches, now. */
  readonly storage_bytes: number;
  /** What that came to in the month until `storage_at`. */
  readonly storage_byte_seconds: number;
  readonly storage_at: string;
}

/** Fields as in the API. */
export interface Used {
  readonly active_time_seconds: number;
  readonly compute_time_seconds: number;
  readonly written_data_bytes: number;
  readonly data_transfer_bytes: number;
}

/** The calendar month of a moment, in UTC. */
export function periodOf(moment: Date): { readonly start: Date; readonly end: Date } {
  const [year, month] = [moment.getUTCFullYear(), moment.getUTCMonth()];
  return { start: new Date(Date.UTC(year, month)), end: new Date(Date.UTC(year, month + 1)) };
}

const MICROSECONDS = 1_000_000;
const HOUR_SECONDS = 3_600;

/** What was used in the month of `now`: nothing, if the last use was in an earlier one. Whole units, rounded down. */
export function usedInPeriod(usage: Usage | null | undefined, now: Date): Used {
  const known = usage && new Date(usage.period_start) >= periodOf(now).start ? usage : undefined;
  return {
    active_time_seconds: Math.floor((known?.active_us ?? 0) / MICROSECONDS),
    compute_time_seconds: Math.floor((known?.compute_us ?? 0) / MICROSECONDS),
    written_data_bytes: known?.written_bytes ?? 0,
    data_transfer_bytes: known?.sent_bytes ?? 0,
  };
}

/** Byte-hours that a project has stored since the month began. */
export function storedInPeriod(usage: ProjectUsage | null | undefined, now: Date): number {
  if (!usage) return 0;
  const { start } = periodOf(now);
  const known = new Date(usage.period_start) >= start ? usage.storage_byte_seconds : 0;
  const since = Math.max(new Date(usage.storage_at).getTime(), start.getTime());
  const rest_seconds = Math.max(0, now.getTime() - since) / 1000;
  return Math.floor((known + usage.storage_bytes * rest_seconds) / HOUR_SECONDS);
}

/** `project.settings.quota`; fields as in the API. Nothing, or 0, is no limit. */
export type Quota = Readonly<Partial<Record<keyof Used | 'logical_size_bytes', number>>>;

export interface ExceededQuota {
  readonly name: keyof Quota;
  readonly used: number;
  readonly limit: number;
}

/**
 * The quota that is used up, if one is.
 *
 * @param logical_bytes of the branch that is asked for
 */
export function exceededQuota(
  quota: Quota | undefined,
  usage: Usage | null | undefined,
  { now, logical_bytes }: { readonly now: Date; readonly logical_bytes: number },
): ExceededQuota | undefined {
  const used = { ...usedInPeriod(usage, now), logical_size_bytes: logical_bytes };
  for (const name of Object.keys(used) as (keyof typeof used)[]) {
    const limit = quota?.[name] ?? 0;
    if (limit > 0 && used[name] >= limit) return { name, used: used[name], limit };
  }
  return undefined;
}
