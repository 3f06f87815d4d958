import { statfsSync } from 'node:fs';
import {
  type ComputeRange,
  cacheBytes,
  maxConnections,
  RESERVED_CONNECTIONS,
  ramBytes,
} from '../domain/compute-size.ts';
import { pgSettingProblem } from '../domain/pg-settings.ts';
import { type PreloadChoice, preloadedLibraries } from '../domain/preload-libraries.ts';

const MIB = 1024 ** 2;
const GIB = 1024 ** 3;

/** What the configuration of one compute is derived from. */
export interface SettingsSource {
  readonly major: number;
  readonly range: ComputeRange;
  /** `settings.pg_settings` of the endpoint. What a customer may not set is left out. */
  readonly pg_settings?: Readonly<Record<string, string>>;
  /** One way, as in the public API: `wal_level` goes from `replica` to `logical`. */
  readonly logical_replication?: boolean;
  /** `settings.preload_libraries` of the project; the defaults if left out. */
  readonly preload_libraries?: PreloadChoice;
  /** The platform's own (archive_command, primary_conninfo, hot_standby, ...); they win over all but durability. */
  readonly platform?: Readonly<Record<string, string | number | boolean>>;
}

type Settings = Readonly<Record<string, string | number | boolean>>;

/** The whole text of postgresql.conf. Paths of its own are the driver's to give. */
export function postgresqlConf(source: SettingsSource): string {
  return Object.entries(settingsOf(source))
    .map(([name, value]) => `${name} = ${quoteSetting(value)}\n`)
    .join('');
}

function settingsOf(source: SettingsSource): Settings {
  const { major, range, pg_settings = {}, logical_replication = false, preload_libraries, platform = {} } = source;
  return {
    ...sizeSettings(range),
    ...FIXED,
    ...(major >= 17 ? { allow_alter_system: false } : {}),
    dynamic_shared_memory_type: dynamicSharedMemory(),
    ...customerSettings(pg_settings),
    wal_level: logical_replication ? 'logical' : 'replica',
    shared_preload_libraries: preloadedLibraries(preload_libraries).join(','),
    ...platform,
    ...DURABLE,
  };
}

/** What a standby must not be below its primary in. */
const STANDBY_FLOOR = [
  'max_connections',
  'max_worker_processes',
  'max_wal_senders',
  'max_prepared_transactions',
  'max_locks_per_transaction',
] as const;
export type StandbyFloor = Readonly<Record<(typeof STANDBY_FLOOR)[number], number>>;

/** The five settings that a server with this configuration demands of its standbys. */
export function standbyFloor(source: SettingsSource): StandbyFloor {
  const settings = settingsOf(source);
  return Object.fromEntries(STANDBY_FLOOR.map((name) => [name, Number(settings[name])])) as StandbyFloor;
}

/** The larger of each. */
export function highestFloor(floors: readonly StandbyFloor[]): StandbyFloor {
  return Object.fromEntries(
    STANDBY_FLOOR.map((name) => [name, Math.max(...floors.map((floor) => floor[name]))]),
  ) as StandbyFloor;
}

/**
 * For the start of a child that must not act before it was cleaned: no subscriptions, no autovacuum, nothing loaded,
 * and room for whatever prepared transactions it inherited.
 */
export const quietConf = (source: SettingsSource): string =>
  postgresqlConf({
    ...source,
    platform: {
      ...source.platform,
      archive_mode: false,
      autovacuum: false,
      max_logical_replication_workers: 0,
      max_prepared_transactions: 256,
      // It replays from a checkpoint: a page comes from the log before anything else is done to it.
      recovery_prefetch: 'off',
      shared_preload_libraries: '',
    },
  });

/** Checked when they were written; here again, since what the server refuses would keep it from starting. */
const customerSettings = (settings: Readonly<Record<string, string>>): Settings =>
  Object.fromEntries(
    Object.entries(settings)
      .filter(([name, value]) => pgSettingProblem(name, value) === undefined)
      .map(([name, value]) => [name.toLowerCase(), value]),
  );

/** Sources: the contract's table of sizes, and the public platform's documented formulas, which reproduce its table. */
function sizeSettings(range: ComputeRange): Settings {
  const connections = maxConnections(range);
  const workers = 12 + Math.floor(2 * range.max_cu);
  const sharedBuffersMb = Math.max(128, Math.floor((1023 + (1 + connections + workers) * 256) / 1024));
  const maintenanceKb = Math.max(65_536, Math.floor((ramBytes(range.min_cu) * 1024) / 63_963_136));
  return {
    max_connections: connections,
    max_worker_processes: workers,
    shared_buffers: `${sharedBuffersMb}MB`,
    maintenance_work_mem: `${maintenanceKb}kB`,
    effective_cache_size: `${Math.floor(cacheBytes(range.max_cu) / MIB)}MB`,
    // A backend's share of the disk for temporary files: 20 GiB, or 15 GiB for each CU (contract, section 8).
    temp_file_limit: `${Math.max(20, 15 * range.max_cu) * MIB}kB`,
  };
}

const FIXED: Settings = {
  superuser_reserved_connections: RESERVED_CONNECTIONS,
  max_parallel_workers: 8,
  max_prepared_transactions: 0,
  max_locks_per_transaction: 64,
  max_replication_slots: 10,
  max_wal_senders: 10,
  idle_in_transaction_session_timeout: '5min',
  client_connection_check_interval: '10s',
  password_encryption: 'scram-sha-256',
  huge_pages: 'off',
  restart_after_crash: true,
  // Utility statements carry passwords; they are not to be kept where others read them.
  'pg_stat_statements.track_utility': false,
  // Logs: to the file that the driver gives as stderr, and no text of a statement, since statements carry secrets.
  log_destination: 'stderr',
  logging_collector: false,
  log_line_prefix: '%m [%p] ',
  log_statement: 'none',
  log_min_error_statement: 'panic',
  log_temp_files: '1GB',
  log_timezone: 'UTC',
  timezone: 'GMT',
  lc_messages: 'C',
  default_text_search_config: 'pg_catalog.english',
  // WAL and replication: segments are of 1 MB and are archived by hard links.
  max_wal_size: '1GB',
  // Segments are never reused, so filling each with zeros first would write everything twice.
  wal_init_zero: false,
  max_slot_wal_keep_size: '4GB',
  wal_sender_timeout: '10s',
};

/** Nothing overrides these: what was acknowledged must be there after any kill. */
const DURABLE: Settings = {
  fsync: true,
  full_page_writes: true,
  // An archived segment is a link to the file Postgres wrote; a recycled file would change under it.
  wal_recycle: false,
};

/** /dev/shm is 64 MB in many containers; a parallel query would then fail for want of room. */
function dynamicSharedMemory(): 'posix' | 'mmap' {
  if (process.platform !== 'linux') return 'posix';
  try {
    const { bsize, blocks } = statfsSync('/dev/shm');
    return bsize * blocks >= GIB ? 'posix' : 'mmap';
  } catch {
    return 'mmap';
  }
}

/** A value as postgresql.conf takes it. Line ends cannot be written there at all. */
export function quoteSetting(value: string | number | boolean): string {
  if (typeof value === 'number') return String(value);
  if (typeof value === 'boolean') return value ? 'on' : 'off';
  if (/[\n\r\0]/.test(value)) throw new Error(`a setting's value holds a line end: ${JSON.stringify(value)}`);
  return `'${value.replaceAll('\\', '\\\\').replaceAll("'", "''")}'`;
}
