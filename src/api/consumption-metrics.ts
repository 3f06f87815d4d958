import type { StorageSum, UsageSum } from '../store/consumption.ts';

/** What one consumer used and held in one timeframe. */
export interface Consumed {
  readonly used: UsageSum | undefined;
  readonly stored: ReadonlyMap<StorageSum['kind'], StorageSum>;
}

type Metric = (consumed: Consumed) => number;

const HOUR_SECONDS = 3_600;
const seconds = (us: number | undefined): number => Math.floor((us ?? 0) / 1_000_000);
const byteHours =
  (...kinds: StorageSum['kind'][]): Metric =>
  ({ stored }) =>
    Math.floor(kinds.reduce((sum, kind) => sum + (stored.get(kind)?.byte_seconds ?? 0), 0) / HOUR_SECONDS);
const bytes =
  (...kinds: StorageSum['kind'][]): Metric =>
  ({ stored }) =>
    kinds.reduce((sum, kind) => sum + (stored.get(kind)?.bytes_end ?? 0), 0);

/** Metrics of the first version. Sizes are those at the end of the timeframe. */
export const METRICS_V1 = {
  active_time_seconds: ({ used }) => seconds(used?.active_us),
  compute_time_seconds: ({ used }) => seconds(used?.compute_us),
  written_data_bytes: ({ used }) => used?.written_bytes ?? 0,
  synthetic_storage_size_bytes: bytes('root', 'child', 'history'),
  data_storage_bytes_hour: byteHours('root', 'child', 'history'),
  logical_size_bytes: bytes('logical'),
  logical_size_bytes_hour: byteHours('logical'),
} as const satisfies Record<string, Metric>;

/** Metrics of the second version for branches. Those of a month are told in byte-hours, as clients expect them. */
export const BRANCH_METRICS = {
  compute_unit_seconds: ({ used }) => seconds(used?.compute_us),
  root_branch_bytes_month: byteHours('root'),
  child_branch_bytes_month: byteHours('child'),
  instant_restore_bytes_month: byteHours('history'),
  public_network_transfer_bytes: ({ used }) => (used ? used.sent_bytes - used.private_bytes : 0),
  private_network_transfer_bytes: ({ used }) => used?.private_bytes ?? 0,
} as const satisfies Record<string, Metric>;

/** Those for projects. No plan here has a number of branches that it includes: none is beyond it. */
export const PROJECT_METRICS = {
  ...BRANCH_METRICS,
  extra_branches_month: () => 0,
  snapshot_storage_bytes_month: byteHours('snapshot'),
} as const satisfies Record<string, Metric>;
