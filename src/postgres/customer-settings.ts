/**
 * What a customer may set for a whole compute. Only names in this table pass, and only values that the server takes
 * for certain: a value it refuses would keep the compute from starting. Everything that decides durability, access,
 * files, archiving, replication, logging and what is loaded stays out, as does what a size decides.
 */

interface Rule {
  /** The value's form. Bounds are in the server's own unit. */
  readonly kind: 'bool' | 'integer' | 'real' | 'ms' | 's' | 'min' | 'kB' | '8kB' | 'enum' | 'text';
  readonly min?: number;
  readonly max?: number;
  readonly values?: readonly string[];
  readonly accepts?: (value: string) => boolean;
  /** The first major that knows it. */
  readonly since?: number;
}

const MAX_INT = 2_147_483_647;
const bool: Rule = { kind: 'bool' };
const integer = (min: number, max = MAX_INT): Rule => ({ kind: 'integer', min, max });
const real = (min: number, max = 1e10): Rule => ({ kind: 'real', min, max });
const cost = real(0, 1e10);
const ms = (min: number, max = MAX_INT): Rule => ({ kind: 'ms', min, max });
const kB = (min: number, max = MAX_INT): Rule => ({ kind: 'kB', min, max });
const pages = (min: number, max = MAX_INT): Rule => ({ kind: '8kB', min, max });
const oneOf = (...values: string[]): Rule => ({ kind: 'enum', values });
const since = (major: number, rule: Rule): Rule => ({ ...rule, since: major });

const ZONE = /^[A-Za-z_]+(\/[A-Za-z0-9_+-]+)*$/;
const SCHEMA = '("\\$user"|[a-z_][a-z0-9_]{0,62})';

function isTimeZone(value: string): boolean {
  try {
    return ZONE.test(value) && Boolean(new Intl.DateTimeFormat('en', { timeZone: value }));
  } catch {
    return false;
  }
}

const RULES: Readonly<Record<string, Rule>> = {
  // memory
  work_mem: kB(64),
  maintenance_work_mem: kB(1024),
  autovacuum_work_mem: kB(1024),
  logical_decoding_work_mem: kB(64),
  hash_mem_multiplier: real(1, 1000),
  temp_buffers: pages(100, 1_073_741_823),
  vacuum_buffer_usage_limit: since(16, kB(128, 16_777_216)),
  gin_pending_list_limit: kB(64),
  gin_fuzzy_search_limit: integer(0),
  // planner
  effective_cache_size: pages(1),
  effective_io_concurrency: integer(0, 1000),
  maintenance_io_concurrency: integer(0, 1000),
  random_page_cost: cost,
  seq_page_cost: cost,
  cpu_tuple_cost: cost,
  cpu_index_tuple_cost: cost,
  cpu_operator_cost: cost,
  parallel_setup_cost: cost,
  parallel_tuple_cost: cost,
  min_parallel_table_scan_size: pages(0, 715_827_882),
  min_parallel_index_scan_size: pages(0, 715_827_882),
  default_statistics_target: integer(1, 10_000),
  cursor_tuple_fraction: real(0, 1),
  from_collapse_limit: integer(1),
  join_collapse_limit: integer(1),
  constraint_exclusion: oneOf('partition', 'on', 'off'),
  plan_cache_mode: oneOf('auto', 'force_generic_plan', 'force_custom_plan'),
  geqo: bool,
  geqo_threshold: integer(2),
  jit: bool,
  jit_above_cost: real(-1),
  jit_inline_above_cost: real(-1),
  jit_optimize_above_cost: real(-1),
  ...Object.fromEntries(
    (
      'async_append bitmapscan gathermerge hashagg hashjoin incremental_sort indexonlyscan indexscan material ' +
      'memoize mergejoin nestloop parallel_append parallel_hash partition_pruning partitionwise_aggregate ' +
      'partitionwise_join seqscan sort tidscan'
    )
      .split(' ')
      .map((method) => [`enable_${method}`, bool]),
  ),
  enable_presorted_aggregate: since(16, bool),
  enable_group_by_reordering: since(17, bool),
  enable_distinct_reordering: since(18, bool),
  enable_self_join_elimination: since(18, bool),
  // parallel work and capacity
  max_parallel_workers: integer(0, 1024),
  max_parallel_workers_per_gather: integer(0, 1024),
  max_parallel_maintenance_workers: integer(0, 1024),
  parallel_leader_participation: bool,
  max_prepared_transactions: integer(0, 1000),
  max_locks_per_transaction: integer(64, 1024),
  max_pred_locks_per_transaction: integer(64, 1024),
  max_replication_slots: integer(10, 100),
  max_wal_senders: integer(10, 100),
  max_logical_replication_workers: integer(1, 32),
  max_sync_workers_per_subscription: integer(0, 32),
  track_activity_query_size: integer(100, 102_400),
  // sessions and transactions
  statement_timeout: ms(0),
  lock_timeout: ms(0),
  transaction_timeout: since(17, ms(0)),
  idle_in_transaction_session_timeout: ms(0),
  idle_session_timeout: ms(0),
  deadlock_timeout: ms(1),
  client_connection_check_interval: ms(0),
  default_transaction_isolation: oneOf('serializable', 'repeatable read', 'read committed', 'read uncommitted'),
  default_transaction_read_only: bool,
  default_transaction_deferrable: bool,
  synchronous_commit: oneOf('on', 'off', 'local'),
  commit_delay: integer(0, 100_000),
  commit_siblings: integer(0, 1000),
  // vacuum
  autovacuum: bool,
  autovacuum_naptime: { kind: 's', min: 1, max: 2_147_483 },
  autovacuum_max_workers: integer(1, 16),
  autovacuum_vacuum_threshold: integer(0),
  autovacuum_vacuum_insert_threshold: integer(-1),
  autovacuum_analyze_threshold: integer(0),
  autovacuum_vacuum_scale_factor: real(0, 100),
  autovacuum_vacuum_insert_scale_factor: real(0, 100),
  autovacuum_analyze_scale_factor: real(0, 100),
  autovacuum_vacuum_cost_delay: { kind: 'ms', min: -1, max: 100 },
  autovacuum_vacuum_cost_limit: integer(-1, 10_000),
  autovacuum_freeze_max_age: integer(100_000, 2_000_000_000),
  vacuum_cost_delay: { kind: 'ms', min: 0, max: 100 },
  vacuum_cost_limit: integer(1, 10_000),
  vacuum_freeze_min_age: integer(0, 1_000_000_000),
  vacuum_freeze_table_age: integer(0, 2_000_000_000),
  // what the server counts
  track_io_timing: bool,
  track_functions: oneOf('none', 'pl', 'all'),
  compute_query_id: oneOf('auto', 'regress', 'on', 'off'),
  'pg_stat_statements.max': integer(100, 100_000),
  'pg_stat_statements.track': oneOf('none', 'top', 'all'),
  'pg_stat_statements.track_planning': bool,
  // forms of values
  timezone: { kind: 'text', accepts: isTimeZone },
  datestyle: { kind: 'text', accepts: (value) => /^(iso|sql|postgres|german)(, ?(mdy|dmy|ymd))?$/i.test(value) },
  intervalstyle: oneOf('postgres', 'postgres_verbose', 'sql_standard', 'iso_8601'),
  bytea_output: oneOf('hex', 'escape'),
  extra_float_digits: integer(-15, 3),
  xmlbinary: oneOf('base64', 'hex'),
  xmloption: oneOf('content', 'document'),
  search_path: { kind: 'text', accepts: (value) => new RegExp(`^${SCHEMA}(, ?${SCHEMA})*$`).test(value) },
  default_text_search_config: { kind: 'text', accepts: (value) => /^pg_catalog\.[a-z]{1,30}$/.test(value) },
  client_min_messages: oneOf('debug5', 'debug4', 'debug3', 'debug2', 'debug1', 'log', 'notice', 'warning', 'error'),
  array_nulls: bool,
  check_function_bodies: bool,
  quote_all_identifiers: bool,
  transform_null_equals: bool,
};

const BOOLEANS = ['on', 'off', 'true', 'false', 'yes', 'no', '1', '0'];
const TIME_UNITS_MS: Readonly<Record<string, number>> = {
  us: 0.001,
  ms: 1,
  s: 1000,
  min: 60_000,
  h: 3_600_000,
  d: 86_400_000,
};
const MEMORY_UNITS_KB: Readonly<Record<string, number>> = {
  B: 1 / 1024,
  kB: 1,
  MB: 1024,
  GB: 1024 ** 2,
  TB: 1024 ** 3,
};

/** Why a customer cannot have this setting, as a sentence; undefined when they can. Without a major: on any. */
export function pgSettingProblem(name: string, value: string, major?: number): string | undefined {
  const rule = Object.hasOwn(RULES, name.toLowerCase()) ? RULES[name.toLowerCase()] : undefined;
  if (!rule) return 'it is set by the platform or not known; see the list of settings in the documentation';
  if (major !== undefined && !knownOn(rule, major)) return `Postgres ${major} does not have it`;
  if (typeof value !== 'string') return 'the value must be a text';
  if (value.length > 256) return 'the value must be at most 256 characters';
  switch (rule.kind) {
    case 'bool':
      return BOOLEANS.includes(value.toLowerCase()) ? undefined : 'the value must be on or off';
    case 'enum':
      if (rule.values?.includes(value.toLowerCase())) return undefined;
      return `the value must be one of ${rule.values?.join(', ')}`;
    case 'text':
      return rule.accepts?.(value) ? undefined : 'the value does not have the form this setting takes';
    default:
      return numberProblem(rule, value);
  }
}

function numberProblem({ kind, min = 0, max = MAX_INT }: Rule, value: string): string | undefined {
  const match = /^(-?\d{1,12}(?:\.\d{1,9})?) ?(us|ms|s|min|h|d|B|kB|MB|GB|TB)?$/.exec(value);
  if (!match) return 'the value must be a number';
  const [, digits, unit] = match;
  const number = Number(digits) * factor(kind, unit);
  if (Number.isNaN(number)) return `${unit} is not a unit of this setting`;
  if (kind === 'integer' && !Number.isInteger(number)) return 'the value must be a whole number';
  const base = kind === 'integer' || kind === 'real' ? '' : ` (${kind})`;
  return number < min || number > max ? `the value must be between ${min} and ${max}${base}` : undefined;
}

/** What one of the given unit is in the setting's own; NaN where it has no such unit. */
function factor(kind: Rule['kind'], unit: string | undefined): number {
  if (unit === undefined) return 1;
  if (kind === 'kB') return MEMORY_UNITS_KB[unit] ?? Number.NaN;
  if (kind === '8kB') return (MEMORY_UNITS_KB[unit] ?? Number.NaN) / 8;
  const own = TIME_UNITS_MS[kind];
  return own === undefined ? Number.NaN : (TIME_UNITS_MS[unit] ?? Number.NaN) / own;
}

/** The settings of a customer that a major knows, by the name that stands in the file. Refused ones are left out. */
export function customerSettings(settings: Readonly<Record<string, string>>, major: number): Map<string, string> {
  const kept = Object.entries(settings).filter(([name, value]) => pgSettingProblem(name, value, major) === undefined);
  return new Map(kept.map(([name, value]) => [name.toLowerCase(), value]));
}

const knownOn = (rule: Rule, major: number): boolean => (rule.since ?? 0) <= major;
