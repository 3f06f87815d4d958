import type { InstallationFacts } from '../../actions/context.ts';
import { periodOf, type Quota, storedInPeriod, type Used, usedInPeriod } from '../../domain/usage.ts';
import type { ProjectView } from '../../store/projects.ts';
import type { ProjectRow } from '../../store/schema.ts';
import type { Project, ProjectListItem } from '../schemas/project.ts';
import { timestamp } from './timestamp.ts';

const MIB = 1024 ** 2;
/** Without a quota nothing limits a branch but the disk; clients want a number. */
const NO_SIZE_LIMIT_BYTES = 16 * 1024 ** 4;

const DEFAULT_SETTINGS: Project['settings'] = {
  allowed_ips: { ips: [], protected_branches_only: false },
  enable_logical_replication: false,
  block_public_connections: false,
  block_vpc_connections: false,
  hipaa: false,
};

/** One that was just made has used nothing yet. */
type ShownProject = ProjectRow & Partial<Pick<ProjectView, 'usage'>>;

function facts(row: ShownProject, installation: InstallationFacts, used: Used) {
  const size_limit_bytes = (row.settings.quota as Quota | undefined)?.logical_size_bytes || NO_SIZE_LIMIT_BYTES;
  return {
    id: row.id,
    platform_id: 'local',
    region_id: row.region_id,
    name: row.name,
    provisioner: row.provisioner,
    default_endpoint_settings: row.default_endpoint_settings,
    settings: { ...DEFAULT_SETTINGS, ...row.settings },
    pg_version: row.pg_version,
    proxy_host: installation.domain,
    branch_logical_size_limit: Math.floor(size_limit_bytes / MIB),
    branch_logical_size_limit_bytes: size_limit_bytes,
    store_passwords: row.store_passwords,
    cpu_used_sec: used.compute_time_seconds,
    synthetic_storage_size: row.usage?.storage_bytes ?? 0,
    locked: false,
    creation_source: 'console',
    history_retention_seconds: row.history_retention_seconds,
    owner_id: row.organization_id,
    org_id: row.organization_id,
    created_at: timestamp(row.created_at),
    updated_at: timestamp(row.updated_at),
  };
}

/** A project as the API shows it. Its period is the calendar month, in UTC. */
export function serializeProject(row: ShownProject, installation: InstallationFacts, now = new Date()): Project {
  const used = usedInPeriod(row.usage, now);
  const period = periodOf(now);
  return {
    ...facts(row, installation, used),
    ...used,
    data_storage_bytes_hour: storedInPeriod(row.usage, now),
    consumption_period_start: timestamp(period.start),
    consumption_period_end: timestamp(period.end),
  };
}

/** A project in a list. */
export function serializeProjectListItem(row: ShownProject, installation: InstallationFacts): ProjectListItem {
  const used = usedInPeriod(row.usage, new Date());
  const item = { ...facts(row, installation, used), active_time: used.active_time_seconds };
  if (!row.deleted_at) return item;
  const until = row.deleted_at.getTime() + (installation.keep_deleted_projects_seconds ?? 0) * 1000;
  return { ...item, deleted_at: timestamp(row.deleted_at), recoverable_until: timestamp(new Date(until)) };
}
