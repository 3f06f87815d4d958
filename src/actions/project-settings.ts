import { isAddressRule } from '../domain/address-rules.ts';
import { CoppiceError } from '../domain/errors.ts';
import { LIMITS } from '../domain/limits.ts';
import { type PreloadChoice, unknownLibrary } from '../domain/preload-libraries.ts';
import type { EndpointDefaults, ProjectSettings } from '../store/schema.ts';
import { changedComputeIntent } from './compute-intent.ts';
import type { InstallationFacts } from './context.ts';

/** The template for endpoints made later; fields as in the API. */
export interface EndpointDefaultsRequest extends EndpointDefaults {
  readonly pgbouncer_settings?: Readonly<Record<string, string>>;
}

/** `project.settings`; fields as in the API. */
export interface ProjectSettingsRequest {
  readonly quota?: Readonly<Record<string, number>>;
  readonly allowed_ips?: { readonly ips?: readonly string[]; readonly protected_branches_only?: boolean };
  readonly enable_logical_replication?: boolean;
  readonly maintenance_window?: Readonly<Record<string, unknown>>;
  readonly block_public_connections?: boolean;
  readonly block_vpc_connections?: boolean;
  readonly audit_log_level?: string;
  readonly hipaa?: boolean;
  readonly preload_libraries?: PreloadChoice;
}

/** The defaults after a change. Throws when a size, a time or a Postgres setting is not allowed. */
export function changedEndpointDefaults(
  request: EndpointDefaultsRequest,
  before: Required<EndpointDefaults>,
  installation: InstallationFacts,
): Required<EndpointDefaults> {
  const { pg_settings, pgbouncer_settings, ...compute } = request;
  const touched = pg_settings !== undefined || pgbouncer_settings !== undefined;
  const after = changedComputeIntent(
    { ...compute, settings: touched ? { pg_settings, pgbouncer_settings } : undefined },
    {
      min_cu: before.autoscaling_limit_min_cu,
      max_cu: before.autoscaling_limit_max_cu,
      suspend_timeout_seconds: before.suspend_timeout_seconds,
      pg_settings: before.pg_settings,
    },
    installation,
  );
  return {
    pg_settings: after.pg_settings,
    autoscaling_limit_min_cu: after.min_cu,
    autoscaling_limit_max_cu: after.max_cu,
    suspend_timeout_seconds: after.suspend_timeout_seconds,
  };
}

/**
 * The settings after a change: each key that is sent replaces what was there. What this version does not enforce is
 * refused with 501, since a rule that nothing keeps to is worse than none.
 */
export function changedProjectSettings(request: ProjectSettingsRequest, before: ProjectSettings): ProjectSettings {
  const unenforced = unenforcedSetting(request);
  if (unenforced) throw new CoppiceError('not_available', { feature: `a project with ${unenforced}` });
  checkAllowedIps(request.allowed_ips?.ips ?? []);
  if (before.enable_logical_replication === true && request.enable_logical_replication === false) {
    throw new CoppiceError('logical_replication_stays');
  }
  const { allowed_ips } = request;
  const complete = allowed_ips && { ips: [], protected_branches_only: false, ...allowed_ips };
  const sent = Object.entries({ ...request, allowed_ips: complete }).filter(([, value]) => value !== undefined);
  return { ...before, ...Object.fromEntries(sent) };
}

/** One that cannot be read would let nobody in, which is not what whoever wrote it wants. */
function checkAllowedIps(ips: readonly string[]): void {
  const field = 'project.settings.allowed_ips.ips';
  const max = LIMITS.allowed_ips_per_project;
  if (ips.length > max) throw new CoppiceError('invalid_request', { field, problem: `has more than ${max} entries` });
  const wrong = ips.find((entry) => !isAddressRule(entry));
  if (wrong === undefined) return;
  const problem = `${JSON.stringify(wrong.slice(0, 100))} is not an address, a range (a-b) or a network (a/n) of IPv4 or IPv6`;
  throw new CoppiceError('invalid_request', { field, problem });
}

function unenforcedSetting(settings: ProjectSettingsRequest): string | undefined {
  if (settings.block_vpc_connections) return 'blocked connections (settings.block_vpc_connections)';
  if (settings.hipaa) return 'HIPAA rules (settings.hipaa)';
  if (settings.audit_log_level) return 'an audit log of its databases (settings.audit_log_level)';
  const unknown = unknownLibrary(settings.preload_libraries?.enabled_libraries);
  return unknown && `the preloaded library ${JSON.stringify(unknown.slice(0, 100))} (settings.preload_libraries)`;
}

/** Throws when a restore window is longer than this server keeps. */
export function checkHistoryRetention(requested: number): void {
  const max = LIMITS.history_retention_seconds_max;
  if (requested > max) throw new CoppiceError('retention_too_long', { requested, max });
}
