/**
 * The Postgres settings that a customer may give an endpoint (`settings.pg_settings`). It is a list of what is allowed:
 * a setting belongs here when every Postgres version that we run knows it, and no value in its range reaches files,
 * durability, the observation of activity, or the memory that the compute's size was reckoned from. A value that a
 * server would refuse would keep it from starting, so values are checked as Postgres checks them.
 */

/** What Postgres reckons a number in; for memory in bytes, for time in microseconds. */
const UNITS = {
  B: { kind: 'memory', factor: 1 },
  kB: { kind: 'memory', factor: 1024 },
  '8kB': { kind: 'memory', factor: 8 * 1024 },
  MB: { kind: 'memory', factor: 1024 ** 2 },
  GB: { kind: 'memory', factor: 1024 ** 3 },
  TB: { kind: 'memory', factor: 1024 ** 4 },
  us: { kind: 'time', factor: 1 },
  ms: { kind: 'time', factor: 1000 },
  s: { kind: 'time', factor: 1_000_000 },
  min: { kind: 'time', factor: 60_000_000 },
  h: { kind: 'time', factor: 3_600_000_000 },
  d: { kind: 'time', factor: 86_400_000_000 },
} as const;
type Unit = keyof typeof UNITS;

/** As in `pg_settings`: type, unit and range, the range possibly narrower than what Postgres allows. */
export type PgSettingType =
  | { readonly type: 'bool' }
  | { readonly type: 'enum'; readonly values: readonly string[] }
  | { readonly type: 'integer' | 'real'; readonly min: number; readonly max: number; readonly unit?: Unit };

export interface PgSetting {
  /** Takes effect when the server starts; the others when it reads its configuration anew. */
  readonly restart: boolean;
  readonly value: PgSettingType;
}

const INT_MAX = 2_147_483_647;
const COST_MAX = 1e300;
const GIB_IN_KB = 1024 ** 2;

const bool: PgSettingType = { type: 'bool' };
const oneOf = (...values: string[]): PgSettingType => ({ type: 'enum', values });
const integer = (min: number, max: number, unit?: Unit): PgSettingType => ({ type: 'integer', min, max, unit });
const real = (min: number, max: number, unit?: Unit): PgSettingType => ({ type: 'real', min, max, unit });
const timeoutMs = integer(0, INT_MAX, 'ms');
const cost = real(0, COST_MAX);

const RELOADED: Readonly<Record<string, PgSettingType>> = {
  // The planner.
  enable_async_append: bool,
  enable_bitmapscan: bool,
  enable_gathermerge: bool,
  enable_hashagg: bool,
  enable_hashjoin: bool,
  enable_incremental_sort: bool,
  enable_indexonlyscan: bool,
  enable_indexscan: bool,
  enable_material: bool,
  enable_memoize: bool,
  enable_mergejoin: bool,
  enable_nestloop: bool,
  enable_parallel_append: bool,
  enable_parallel_hash: bool,
  enable_partition_pruning: bool,
  enable_partitionwise_aggregate: bool,
  enable_partitionwise_join: bool,
  enable_seqscan: bool,
  enable_sort: bool,
  enable_tidscan: bool,
  constraint_exclusion: oneOf('partition', 'on', 'off'),
  cpu_index_tuple_cost: cost,
  cpu_operator_cost: cost,
  cpu_tuple_cost: cost,
  cursor_tuple_fraction: real(0, 1),
  default_statistics_target: integer(1, 10_000),
  effective_cache_size: integer(1, INT_MAX, '8kB'),
  from_collapse_limit: integer(1, INT_MAX),
  geqo: bool,
  geqo_effort: integer(1, 10),
  geqo_threshold: integer(2, INT_MAX),
  jit: bool,
  jit_above_cost: real(-1, COST_MAX),
  jit_inline_above_cost: real(-1, COST_MAX),
  jit_optimize_above_cost: real(-1, COST_MAX),
  join_collapse_limit: integer(1, INT_MAX),
  min_parallel_index_scan_size: integer(0, 715_827_882, '8kB'),
  min_parallel_table_scan_size: integer(0, 715_827_882, '8kB'),
  parallel_leader_participation: bool,
  parallel_setup_cost: cost,
  parallel_tuple_cost: cost,
  plan_cache_mode: oneOf('auto', 'force_generic_plan', 'force_custom_plan'),
  random_page_cost: cost,
  recursive_worktable_factor: real(0.001, 1_000_000),
  seq_page_cost: cost,
  // Memory and workers of a session; any session may set these for itself.
  gin_pending_list_limit: integer(64, GIB_IN_KB, 'kB'),
  hash_mem_multiplier: real(1, 1000),
  logical_decoding_work_mem: integer(64, 4 * GIB_IN_KB, 'kB'),
  maintenance_work_mem: integer(1024, 64 * GIB_IN_KB, 'kB'),
  max_parallel_maintenance_workers: integer(0, 1024),
  max_parallel_workers: integer(0, 1024),
  max_parallel_workers_per_gather: integer(0, 1024),
  temp_buffers: integer(100, 131_072, '8kB'),
  work_mem: integer(64, 64 * GIB_IN_KB, 'kB'),
  // What sessions and statements do by default.
  array_nulls: bool,
  backslash_quote: oneOf('safe_encoding', 'on', 'off'),
  bytea_output: oneOf('escape', 'hex'),
  check_function_bodies: bool,
  client_min_messages: oneOf('debug5', 'debug4', 'debug3', 'debug2', 'debug1', 'log', 'notice', 'warning', 'error'),
  deadlock_timeout: integer(1, INT_MAX, 'ms'),
  default_transaction_deferrable: bool,
  default_transaction_isolation: oneOf('serializable', 'repeatable read', 'read committed', 'read uncommitted'),
  default_transaction_read_only: bool,
  extra_float_digits: integer(-15, 3),
  gin_fuzzy_search_limit: integer(0, INT_MAX),
  idle_in_transaction_session_timeout: timeoutMs,
  idle_session_timeout: timeoutMs,
  IntervalStyle: oneOf('postgres', 'postgres_verbose', 'sql_standard', 'iso_8601'),
  lock_timeout: timeoutMs,
  quote_all_identifiers: bool,
  statement_timeout: timeoutMs,
  stats_fetch_consistency: oneOf('none', 'cache', 'snapshot'),
  synchronize_seqscans: bool,
  synchronous_commit: oneOf('local', 'remote_write', 'remote_apply', 'on', 'off'),
  transform_null_equals: bool,
  xmlbinary: oneOf('base64', 'hex'),
  xmloption: oneOf('content', 'document'),
  // Vacuum.
  autovacuum: bool,
  autovacuum_analyze_scale_factor: real(0, 100),
  autovacuum_analyze_threshold: integer(0, INT_MAX),
  autovacuum_naptime: integer(1, 86_400, 's'),
  autovacuum_vacuum_cost_delay: real(-1, 100, 'ms'),
  autovacuum_vacuum_cost_limit: integer(-1, 10_000),
  autovacuum_vacuum_insert_scale_factor: real(0, 100),
  autovacuum_vacuum_insert_threshold: integer(-1, INT_MAX),
  autovacuum_vacuum_scale_factor: real(0, 100),
  autovacuum_vacuum_threshold: integer(0, INT_MAX),
  autovacuum_work_mem: integer(-1, 64 * GIB_IN_KB, 'kB'),
  vacuum_cost_delay: real(0, 100, 'ms'),
  vacuum_cost_limit: integer(1, 10_000),
  vacuum_cost_page_dirty: integer(0, 10_000),
  vacuum_cost_page_hit: integer(0, 10_000),
  vacuum_cost_page_miss: integer(0, 10_000),
  vacuum_failsafe_age: integer(0, 2_100_000_000),
  vacuum_freeze_min_age: integer(0, 1_000_000_000),
  vacuum_freeze_table_age: integer(0, 2_000_000_000),
  vacuum_multixact_failsafe_age: integer(0, 2_100_000_000),
  vacuum_multixact_freeze_min_age: integer(0, 1_000_000_000),
  vacuum_multixact_freeze_table_age: integer(0, 2_000_000_000),
  // Writing.
  bgwriter_delay: integer(10, 10_000, 'ms'),
  bgwriter_lru_maxpages: integer(0, 1_073_741_823),
  bgwriter_lru_multiplier: real(0, 10),
  checkpoint_completion_target: real(0, 1),
  checkpoint_timeout: integer(30, 86_400, 's'),
  commit_delay: integer(0, 100_000),
  commit_siblings: integer(0, 1000),
  wal_compression: oneOf('pglz', 'on', 'off'),
  wal_writer_delay: integer(1, 10_000, 'ms'),
  // Statistics and the log. What would write statements, and with them passwords, to the log is left out.
  compute_query_id: oneOf('auto', 'on', 'off'),
  log_autovacuum_min_duration: integer(-1, INT_MAX, 'ms'),
  log_checkpoints: bool,
  track_functions: oneOf('none', 'pl', 'all'),
  track_io_timing: bool,
  track_wal_io_timing: bool,
};

const RESTARTED: Readonly<Record<string, PgSettingType>> = {
  autovacuum_freeze_max_age: integer(100_000, 2_000_000_000),
  // Read anew from Postgres 18 on, where 16 workers have room.
  autovacuum_max_workers: integer(1, 16),
  autovacuum_multixact_freeze_max_age: integer(10_000, 2_000_000_000),
  // Shared memory for every connection; these bounds keep it below the size's share.
  max_locks_per_transaction: integer(10, 1024),
  max_pred_locks_per_transaction: integer(10, 1024),
  track_activity_query_size: integer(100, 65_536, 'B'),
};

/** The settings by their names, which Postgres compares without regard to case. */
export const PG_SETTINGS: ReadonlyMap<string, PgSetting> = new Map(
  [
    ...Object.entries(RELOADED).map(([name, value]) => [name, { restart: false, value }] as const),
    ...Object.entries(RESTARTED).map(([name, value]) => [name, { restart: true, value }] as const),
  ].map(([name, setting]) => [name.toLowerCase(), setting]),
);

/** Why a customer may not give a setting this value, as a part of a sentence; undefined when it is allowed. */
export function pgSettingProblem(name: string, value: string): string | undefined {
  const setting = PG_SETTINGS.get(name.toLowerCase());
  if (!setting) return 'it is not among the settings that can be changed';
  return valueProblem(setting.value, value);
}

/** Whether a change of this setting waits for the server's next start. */
export const pgSettingNeedsRestart = (name: string): boolean => PG_SETTINGS.get(name.toLowerCase())?.restart ?? true;

const BOOLEANS = ['on', 'off', 'true', 'false', 'yes', 'no', '1', '0'];

function valueProblem(allowed: PgSettingType, value: string): string | undefined {
  if (allowed.type === 'bool')
    return BOOLEANS.includes(value.toLowerCase()) ? undefined : 'the value must be on or off';
  if (allowed.type === 'enum') {
    return allowed.values.includes(value.toLowerCase())
      ? undefined
      : `the value must be one of ${allowed.values.join(', ')}`;
  }
  const { type, min, max, unit } = allowed;
  const number = readNumber(value, unit);
  if (number !== undefined && number >= min && number <= max) return undefined;
  const example = unit && (UNITS[unit].kind === 'memory' ? '64MB' : '5s');
  const noun = type === 'integer' ? 'a whole number' : 'a number';
  return `the value must be ${noun} from ${min} to ${max}${unit ? ` in ${unit}, or with a unit as in ${example}` : ''}`;
}

/** The number in the setting's own unit. Units keep their case, and a leading zero would mean octal, as in Postgres. */
function readNumber(text: string, unit: Unit | undefined): number | undefined {
  const match = /^([+-]?(?:0|[1-9]\d{0,19})(?:\.\d{0,20})?(?:e[+-]?\d{1,3})?)(?: ?([A-Za-z]+))?$/.exec(text);
  if (!match) return undefined;
  const number = Number(match[1]);
  const suffix = match[2];
  if (!suffix) return number;
  const given = Object.hasOwn(UNITS, suffix) ? UNITS[suffix as Unit] : undefined;
  if (!given || !unit || given.kind !== UNITS[unit].kind) return undefined;
  return (number * given.factor) / UNITS[unit].factor;
}
