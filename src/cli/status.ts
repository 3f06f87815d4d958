import type { Command } from 'commander';
import type { Settings } from '../domain/settings.ts';

/** What `coppice status` shows. */
export interface StatusReport {
  readonly version: string;
  readonly data_directory: string;
  readonly projects: number;
  /** Those that are in object storage, since nobody uses them. */
  readonly projects_detached: number;
  readonly branches: number;
  readonly endpoints_active: number;
  readonly endpoints_idle: number;
  /** Those of the engine, that history is made of. */
  readonly snapshots: number;
  /** What only one of them holds, as far as it was measured. */
  readonly snapshots_bytes: number;
  readonly replicas_active: number;
  readonly replica_lag_bytes_max: number;
  readonly replica_lag_seconds_max: number;
  readonly operations_unfinished: number;
  readonly operations_failed: number;
  /** Files of histories that are missing or damaged. */
  readonly history_damages: number;
  /** Undefined before the storage was looked at. */
  readonly storage?: { readonly driver: string; readonly free_bytes: number; readonly total_bytes: number };
  /** Of the write-ahead log; undefined without object storage. */
  readonly log_shipping?: {
    readonly waiting_segments: number;
    readonly waiting_since: Date | null;
    readonly failure: string | null;
    readonly failing_since: Date | null;
  };
}

interface StatusContext {
  readonly settings: () => Settings;
  readonly report: (settings: Settings) => Promise<StatusReport>;
  readonly print: (text: string) => void;
}

/** Adds `status`. */
export function registerStatus(program: Command, { settings, report, print }: StatusContext): void {
  program
    .command('status')
    .description('show what runs; Coppice must be running')
    .option('--json', 'as JSON')
    .action(async ({ json }: { json?: true }) => {
      const status = await report(settings());
      print(json ? `${JSON.stringify(status, undefined, 2)}\n` : formatStatus(status));
    });
}

function formatStatus(status: StatusReport): string {
  const { storage, log_shipping } = status;
  const rows: [string, string][] = [
    ['version', status.version],
    ['data', status.data_directory],
    ['projects', `${status.projects}${status.projects_detached > 0 ? `, ${status.projects_detached} detached` : ''}`],
    ['branches', String(status.branches)],
    ['computes', `${status.endpoints_active} active, ${status.endpoints_idle} idle`],
    ['operations', `${status.operations_unfinished} unfinished, ${status.operations_failed} failed in the last day`],
  ];
  if (status.history_damages > 0) {
    rows.push(['history', `${status.history_damages} damaged; coppice doctor tells more`]);
  }
  const gib = (bytes: number) => (bytes / 1024 ** 3).toFixed(1);
  rows.push(['history', `${status.snapshots} snapshots, ${gib(status.snapshots_bytes)} GiB of their own`]);
  if (status.replicas_active > 0) {
    const { replicas_active, replica_lag_bytes_max, replica_lag_seconds_max } = status;
    const lag = `at most ${replica_lag_bytes_max} bytes and ${replica_lag_seconds_max.toFixed(1)} s behind`;
    rows.push(['replicas', `${replicas_active} active, ${lag}`]);
  }
  if (storage) {
    rows.push(['storage', `${storage.driver}, ${gib(storage.free_bytes)} of ${gib(storage.total_bytes)} GiB free`]);
  }
  if (log_shipping) rows.push(['objects', formatShipping(log_shipping)]);
  return rows.map(([name, value]) => `${name.padEnd(11)} ${value}\n`).join('');
}

function formatShipping({
  waiting_segments,
  waiting_since,
  failing_since,
}: NonNullable<StatusReport['log_shipping']>): string {
  const behind = `${waiting_segments} segments wait, the oldest since ${waiting_since?.toISOString()}`;
  const state = waiting_segments === 0 ? 'no segment waits' : behind;
  return failing_since ? `${state}; failing since ${failing_since.toISOString()}, coppice doctor tells why` : state;
}
