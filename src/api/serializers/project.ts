import type { InstallationFacts } from '../../actions/context.ts';
import type { ProjectRow } from '../../store/schema.ts';
import type { Project, ProjectListItem } from '../schemas/project.ts';
import { timestamp } from './timestamp.ts';

const MIB = 1024 ** 2;
/** Nothing limits a branch but the disk; clients want a number. */
const NO_SIZE_LIMIT_BYTES = 16 * 1024 ** 4;

const DEFAULT_SETTINGS: Project['settings'] = {
  allowed_ips: { ips: [], protected_branches_only: false },
  enable_logical_replication: false,
  block_public_connections: false,
  block_vpc_connections: false,
  hipaa: false,
};

function facts(row: ProjectRow, installation: InstallationFacts) {
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
    branch_logical_size_limit: NO_SIZE_LIMIT_BYTES / MIB,
    branch_logical_size_limit_bytes: NO_SIZE_LIMIT_BYTES,
    store_passwords: row.store_passwords,
    cpu_used_sec: 0,
    locked: false,
    creation_source: 'console',
    history_retention_seconds: row.history_retention_seconds,
    owner_id: row.organization_id,
    org_id: row.organization_id,
    created_at: timestamp(row.created_at),
    updated_at: timestamp(row.updated_at),
  };
}

/** A project as the API shows it. What it uses is not metered; its period is the calendar month, in UTC. */
export function serializeProject(row: ProjectRow, installation: InstallationFacts, now = new Date()): Project {
  const [year, month] = [now.getUTCFullYear(), now.getUTCMonth()];
  return {
    ...facts(row, installation),
    data_storage_bytes_hour: 0,
    data_transfer_bytes: 0,
    written_data_bytes: 0,
    compute_time_seconds: 0,
    active_time_seconds: 0,
    consumption_period_start: timestamp(new Date(Date.UTC(year, month))),
    consumption_period_end: timestamp(new Date(Date.UTC(year, month + 1))),
  };
}

/** A project in a list. */
export function serializeProjectListItem(row: ProjectRow, installation: InstallationFacts): ProjectListItem {
  const item = { ...facts(row, installation), active_time: 0 };
  if (!row.deleted_at) return item;
  const until = row.deleted_at.getTime() + (installation.keep_deleted_projects_seconds ?? 0) * 1000;
  return { ...item, deleted_at: timestamp(row.deleted_at), recoverable_until: timestamp(new Date(until)) };
}
