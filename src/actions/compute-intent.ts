import { type ComputeRange, DEFAULT_RANGE, rangeProblem } from '../domain/compute-size.ts';
import { CoppiceError } from '../domain/errors.ts';
import { LIMITS } from '../domain/limits.ts';
import { pgSettingProblem } from '../domain/pg-settings.ts';
import { type PreloadChoice, preloadedLibraries } from '../domain/preload-libraries.ts';
import type { EndpointDefaults } from '../store/schema.ts';
import type { InstallationFacts } from './context.ts';

/** What a caller may ask of a compute; fields as in the API. */
export interface ComputeRequest {
  readonly settings?: {
    readonly pg_settings?: Readonly<Record<string, string>>;
    readonly pgbouncer_settings?: Readonly<Record<string, string>>;
    readonly preload_libraries?: PreloadChoice;
  };
  readonly autoscaling_limit_min_cu?: number;
  readonly autoscaling_limit_max_cu?: number;
  readonly suspend_timeout_seconds?: number;
}

/** What an endpoint's row says of its compute. */
export interface ComputeIntent extends ComputeRange {
  readonly suspend_timeout_seconds: number;
  readonly pg_settings: Readonly<Record<string, string>>;
}

/** The intent of a new endpoint of a project with these defaults. Throws when a size, a time or a setting is not allowed. */
export function newComputeIntent(
  request: ComputeRequest,
  defaults: EndpointDefaults,
  installation: InstallationFacts,
): ComputeIntent {
  if (request.settings && !request.settings.pg_settings) {
    throw new CoppiceError('invalid_request', { field: 'settings', problem: 'settings must not be nil' });
  }
  const before: ComputeIntent = {
    min_cu: defaults.autoscaling_limit_min_cu ?? DEFAULT_RANGE.min_cu,
    max_cu: defaults.autoscaling_limit_max_cu ?? DEFAULT_RANGE.max_cu,
    suspend_timeout_seconds: defaults.suspend_timeout_seconds ?? 0,
    pg_settings: defaults.pg_settings ?? {},
  };
  return changedComputeIntent(request, before, installation);
}

/** The intent after a change. A bound that is given alone moves the other one where it must. */
export function changedComputeIntent(
  request: ComputeRequest,
  before: ComputeIntent,
  installation: InstallationFacts,
): ComputeIntent {
  const { autoscaling_limit_min_cu: min, autoscaling_limit_max_cu: max } = request;
  const after: ComputeIntent = {
    min_cu: min ?? Math.min(before.min_cu, max ?? before.min_cu),
    max_cu: max ?? Math.max(before.max_cu, min ?? before.max_cu),
    suspend_timeout_seconds: request.suspend_timeout_seconds ?? before.suspend_timeout_seconds,
    pg_settings: request.settings?.pg_settings ?? before.pg_settings,
  };
  if (min !== undefined || max !== undefined) checkRange(after);
  if (request.suspend_timeout_seconds !== undefined) {
    checkSuspendTimeout(request.suspend_timeout_seconds, installation.min_suspend_timeout_seconds);
  }
  checkSettings(request.settings);
  return after;
}

function checkRange(range: ComputeRange): void {
  const problem = rangeProblem(range);
  if (problem) throw new CoppiceError('invalid_size', { problem });
}

/** Seconds without activity before a compute sleeps: -1 never, 0 the platform's default. */
function checkSuspendTimeout(seconds: number, min_seconds: number): void {
  const max_seconds = LIMITS.suspend_timeout_seconds_max;
  const allowed = seconds === -1 || seconds === 0 || (seconds >= min_seconds && seconds <= max_seconds);
  if (allowed) return;
  throw new CoppiceError('invalid_request', {
    field: 'suspend_timeout_seconds',
    problem: `must be -1, 0 or from ${min_seconds} to ${max_seconds}, not ${seconds}`,
  });
}

function checkSettings(settings: ComputeRequest['settings']): void {
  for (const [name, value] of Object.entries(settings?.pg_settings ?? {})) {
    const problem = pgSettingProblem(name, value);
    if (problem) throw new CoppiceError('pg_setting_refused', { name, problem });
  }
  // Dropping these in silence would leave a caller with a compute that is not what was asked for.
  if (Object.keys(settings?.pgbouncer_settings ?? {}).length > 0) {
    throw new CoppiceError('not_available', { feature: 'a setting of the pooler (pgbouncer_settings)' });
  }
  const { use_defaults = true, enabled_libraries = [] } = settings?.preload_libraries ?? {};
  const defaults = preloadedLibraries();
  if (!use_defaults || enabled_libraries.some((name) => !defaults.includes(name))) {
    const feature =
      'a choice of preloaded libraries for one endpoint (preload_libraries; a project has settings.preload_libraries)';
    throw new CoppiceError('not_available', { feature });
  }
}
