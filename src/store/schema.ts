import type { ColumnType, Generated, GeneratedAlways, Selectable } from 'kysely';
import type { MaskingRule } from '../domain/masking/masking-rule.ts';
import type { OperationAction, OperationStatus } from '../domain/operation-kinds.ts';
import type { ObservedCompute } from '../domain/states.ts';
import type { AuditLogTable } from './audit-log-table.ts';
import type { Big, Json, OptionalJson, OptionalTime, Time } from './column-types.ts';
import type { EventSchema } from './event-schema.ts';
import type { LoginSchema } from './login-schema.ts';
import type { MeteringSchema } from './metering-schema.ts';
import type { SnapshotConfig } from './snapshot-config.ts';

/** Kysely's view of our own database; `migrations/` is the truth, a test compares the two. */

/** Template for endpoints made later; fields as in the API. */
export interface EndpointDefaults {
  readonly pg_settings?: Readonly<Record<string, string>>;
  readonly autoscaling_limit_min_cu?: number;
  readonly autoscaling_limit_max_cu?: number;
  readonly suspend_timeout_seconds?: number;
}

/** `project.settings` as in the API; kept as sent, merged key by key. */
export type ProjectSettings = Readonly<Record<string, unknown>>;

export interface UsersTable {
  id: Generated<string>;
  email: string;
  name: Generated<string>;
  created_at: Time;
  updated_at: Time;
  email_verified: Generated<boolean>;
  two_factor_enabled: Generated<boolean>;
}

export interface OrganizationsTable {
  id: string;
  name: string;
  handle: string;
  plan: Generated<string>;
  created_at: Time;
  updated_at: Time;
}

export interface MembershipsTable {
  id: Generated<string>;
  organization_id: string;
  user_id: string;
  role: 'admin' | 'member';
  joined_at: Time;
}

export interface ProjectsTable {
  id: string;
  organization_id: string;
  name: string;
  region_id: string;
  pg_version: number;
  distribution_id: string;
  provisioner: string;
  store_passwords: boolean;
  history_retention_seconds: number;
  default_endpoint_settings: Json<EndpointDefaults>;
  settings: Json<ProjectSettings>;
  uid: number;
  created_by: string | null;
  created_at: Time;
  updated_at: Time;
  deleted_at: OptionalTime;
  applied_history_retention_seconds: number | null;
  purged_at: OptionalTime;
}

export interface ApiKeysTable {
  id: Big;
  kind: 'personal' | 'organization' | 'project';
  name: string;
  secret_hash: Buffer;
  user_id: string | null;
  organization_id: string | null;
  project_id: string | null;
  created_by: string;
  created_at: Time;
  revoked_at: OptionalTime;
  last_used_at: OptionalTime;
  last_used_from_addr: string | null;
  /** Changes nothing, and is shown no passwords. */
  read_only: Generated<boolean>;
}

export interface InvitationsTable {
  id: Generated<string>;
  organization_id: string;
  email: string;
  role: 'admin' | 'member';
  invited_by: string;
  invited_at: Time;
  accepted_at: OptionalTime;
}

export interface ProjectPermissionsTable {
  id: Generated<string>;
  project_id: string;
  email: string;
  granted_by: string | null;
  granted_at: Time;
  revoked_at: OptionalTime;
}

export interface TransferRequestsTable {
  id: Generated<string>;
  project_id: string;
  created_by: string | null;
  created_at: Time;
  expires_at: Time;
}

export interface TimelinesTable {
  id: string;
  project_id: string;
  parent_id: string | null;
  distribution_id: string;
  created_at: Time;
  deleted_at: OptionalTime;
  volume: OptionalJson<{ driver: string; id: string }>;
  system_identifier: string | null;
  ready_at: OptionalTime;
  applied_config_generation: Big;
  logical_size_bytes: number | null;
  unshared_size_bytes: number | null;
  measured_at: OptionalTime;
  purged_at: OptionalTime;
  birth_lsn: string | null;
  birth_at: OptionalTime;
  head_lsn: string | null;
  head_at: OptionalTime;
  archive_checked_at: OptionalTime;
  stored_at: OptionalTime;
  archived_at: OptionalTime;
  unarchived_at: OptionalTime;
  detached_at: OptionalTime;
  reattached_at: OptionalTime;
  metered_lsn: string | null;
  archive_bytes: number | null;
}

export interface TimelineSnapshotsTable {
  id: string;
  timeline_id: string;
  kind: 'birth' | 'suspend' | 'running';
  created_at: Time;
  deleted_at: OptionalTime;
  volume: OptionalJson<{ driver: string; id: string }>;
  lsn: string | null;
  taken_at: OptionalTime;
  unshared_size_bytes: number | null;
  measured_at: OptionalTime;
  purged_at: OptionalTime;
}

export interface HistoryDamagesTable {
  id: Big;
  timeline_id: string;
  kind: 'missing_segment' | 'wrong_header' | 'wrong_checksum' | 'missing_snapshot' | 'damaged_object';
  object: string;
  detail: string;
  found_at: Time;
  resolved_at: OptionalTime;
}

export interface BranchesTable {
  id: string;
  project_id: string;
  timeline_id: string;
  parent_id: string | null;
  parent_lsn: string | null;
  parent_timestamp: OptionalTime;
  name: string;
  is_default: Generated<boolean>;
  protected: Generated<boolean>;
  init_source: Generated<string>;
  annotations: ColumnType<Record<string, string>, string | undefined, string>;
  created_by: string | null;
  created_at: Time;
  updated_at: Time;
  expires_at: OptionalTime;
  ttl_interval_seconds: number | null;
  deleted_at: OptionalTime;
  config_generation: Big;
  last_reset_at: OptionalTime;
  previous_timeline_id: string | null;
  restore_status: 'restored' | 'finalized' | 'detaching' | null;
  restored_from: string | null;
  restored_as: string | null;
  ephemeral_of: string | null;
  /** Of a deleted branch that can come back. */
  deletion_method: 'user' | 'ttl' | null;
}

export interface BranchRestoresTable {
  branch_id: string;
  preserved_branch_id: string | null;
  parent_id: string | null;
  parent_lsn: string | null;
  parent_timestamp: OptionalTime;
  init_source: string;
  last_reset_at: OptionalTime;
  roles: Json<readonly unknown[]>;
  databases: Json<readonly unknown[]>;
}

export interface BranchMaskingsTable {
  branch_id: string;
  project_id: string;
  rules: Json<readonly MaskingRule[]>;
  created_at: Time;
  updated_at: Time;
  copied_at: OptionalTime;
  asked_at: OptionalTime;
  asked_by: string | null;
  completed_at: OptionalTime;
  failed_at: OptionalTime;
  error: string | null;
  masked_columns: number | null;
  /** Reckoned from the others. */
  state: GeneratedAlways<MaskingState>;
}

export type MaskingState = 'created' | 'initialized' | 'initialization_error' | 'anonymizing' | 'anonymized' | 'error';

export interface SnapshotsTable {
  id: string;
  project_id: string;
  source_branch_id: string;
  timeline_id: string;
  name: string;
  config: Json<SnapshotConfig>;
  lsn: string | null;
  timestamp: OptionalTime;
  manual: Generated<boolean>;
  created_by: string | null;
  created_at: Time;
  expires_at: OptionalTime;
  deleted_at: OptionalTime;
}

export interface BackupSchedulesTable {
  id: Big;
  branch_id: string;
  frequency: 'hourly' | 'daily' | 'weekly' | 'monthly' | 'yearly';
  hour: number | null;
  day: number | null;
  month: number | null;
  retention_seconds: number | null;
  created_at: Time;
  last_due_at: OptionalTime;
}

export interface EndpointsTable {
  id: string;
  project_id: string;
  branch_id: string;
  name: string | null;
  type: 'read_write' | 'read_only';
  min_cu: number;
  max_cu: number;
  suspend_timeout_seconds: number;
  pg_settings: ColumnType<Record<string, string>, string | undefined, string>;
  pooler_enabled: Generated<boolean>;
  passwordless_access: Generated<boolean>;
  disabled: Generated<boolean>;
  created_at: Time;
  updated_at: Time;
  deleted_at: OptionalTime;
  observed_state: ColumnType<ObservedCompute, ObservedCompute | undefined, ObservedCompute>;
  compute: OptionalJson<{ driver: string; id: string }>;
  serves_timeline_id: string | null;
  spec_hash: string | null;
  current_cu: number | null;
  started_at: OptionalTime;
  suspended_at: OptionalTime;
  last_active_at: OptionalTime;
  crashes: Generated<number>;
  removed_at: OptionalTime;
  replica_volume: OptionalJson<{ driver: string; id: string }>;
  replica_timeline_id: string | null;
  replica_lag_bytes: number | null;
  replica_lag_seconds: number | null;
}

export interface RolesTable {
  id: Big;
  branch_id: string;
  name: string;
  origin: 'api' | 'sql' | 'token';
  can_login: Generated<boolean>;
  verifier: string | null;
  sealed_password: Buffer | null;
  valid_until: OptionalTime;
  created_at: Time;
  updated_at: Time;
  deleted_at: OptionalTime;
  applied_verifier: string | null;
}

export interface ProjectJwksTable {
  id: Generated<string>;
  project_id: string;
  branch_id: string | null;
  jwks_url: string;
  provider_name: string;
  jwt_audience: string | null;
  role_names: string[];
  created_at: Time;
  updated_at: Time;
}

export interface DatabasesTable {
  id: Big;
  branch_id: string;
  name: string;
  owner_name: string;
  origin: 'api' | 'sql';
  created_at: Time;
  updated_at: Time;
  deleted_at: OptionalTime;
  applied_name: string | null;
  applied_owner_name: string | null;
}

export interface CallsTable {
  id: string;
  seq: Big;
  project_id: string;
  created_at: Time;
  finished_at: OptionalTime;
  run_at: OptionalTime;
  held_by: string | null;
}

export interface OperationsTable {
  id: string;
  call_id: string;
  position: number;
  project_id: string;
  branch_id: string | null;
  endpoint_id: string | null;
  timeline_id: string | null;
  source_timeline_id: string | null;
  action: OperationAction;
  claims_exclusive: string[];
  claims_shared: string[];
  status: OperationStatus;
  arguments: ColumnType<Record<string, unknown>, string | undefined, string>;
  error: string | null;
  failures_count: Generated<number>;
  retry_at: OptionalTime;
  created_at: Time;
  updated_at: Time;
  started_at: OptionalTime;
  finished_at: OptionalTime;
}

export interface WorkersTable {
  id: string;
  data_directory_id: string;
  started_at: Time;
  heartbeat_at: Time;
}

export interface InstallationTable {
  singleton: Generated<boolean>;
  id: Generated<string>;
  created_at: Time;
}

export interface StoragePoolsTable {
  name: string;
  driver: string;
  path: string;
  total_bytes: number;
  free_bytes: number;
  reserve_bytes: number;
  observed_at: Time;
}

export interface LogShippingTable {
  singleton: Generated<boolean>;
  waiting_segments: number;
  waiting_since: OptionalTime;
  failure: string | null;
  failing_since: OptionalTime;
  observed_at: Time;
}

export interface BackupRequestsTable {
  id: Generated<string>;
  asked_at: Time;
  timelines: Generated<number>;
  timelines_done: Generated<number>;
  problems: ColumnType<readonly BackupProblem[], string | undefined, string>;
  snapshots_at: OptionalTime;
}

/** Something that a backup holds only as it was earlier, or not at all. */
export interface BackupProblem {
  readonly timeline_id: string;
  readonly reason: string;
}

export interface ExportsTable {
  id: Generated<string>;
  number: Generated<number>;
  branch_id: string;
  asked_at: Time;
  begun_at: OptionalTime;
  base: OptionalJson<ExportBase>;
  error: string | null;
  ended_at: OptionalTime;
}

/** A copy of a branch's volume that stands as a base backup, and what has to be known of it. Times are texts of ISO 8601. */
export interface ExportBase {
  readonly timeline_id: string;
  readonly volume: { readonly driver: string; readonly id: string };
  /** As the server tells it: 170010. */
  readonly server_version: number;
  readonly system_identifier: string;
  /** Postgres's own, which counts promotions. */
  readonly pg_timeline: number;
  readonly wal_segment_bytes: number;
  /** Where the data directory was. */
  readonly pgdata: string;
  /** The text of `backup_label`. */
  readonly label: string;
  readonly start_lsn: string;
  readonly stop_lsn: string;
  readonly started_at: string;
  readonly stopped_at: string;
  /** What a server elsewhere is to start with. */
  readonly settings: Readonly<Record<string, string>>;
  /** It has a superuser `postgres`, as which CloudNativePG works. */
  readonly has_superuser: boolean;
}

export interface Schema extends EventSchema, LoginSchema, MeteringSchema {
  users: UsersTable;
  organizations: OrganizationsTable;
  memberships: MembershipsTable;
  projects: ProjectsTable;
  api_keys: ApiKeysTable;
  invitations: InvitationsTable;
  project_permissions: ProjectPermissionsTable;
  transfer_requests: TransferRequestsTable;
  timelines: TimelinesTable;
  timeline_snapshots: TimelineSnapshotsTable;
  history_damages: HistoryDamagesTable;
  branches: BranchesTable;
  branch_restores: BranchRestoresTable;
  branch_maskings: BranchMaskingsTable;
  snapshots: SnapshotsTable;
  backup_schedules: BackupSchedulesTable;
  endpoints: EndpointsTable;
  roles: RolesTable;
  databases: DatabasesTable;
  project_jwks: ProjectJwksTable;
  calls: CallsTable;
  operations: OperationsTable;
  workers: WorkersTable;
  installation: InstallationTable;
  storage_pools: StoragePoolsTable;
  log_shipping: LogShippingTable;
  backup_requests: BackupRequestsTable;
  exports: ExportsTable;
  audit_log: AuditLogTable;
}

export type UserRow = Selectable<UsersTable>;
export type OrganizationRow = Selectable<OrganizationsTable>;
export type MembershipRow = Selectable<MembershipsTable>;
export type InvitationRow = Selectable<InvitationsTable>;
export type ProjectPermissionRow = Selectable<ProjectPermissionsTable>;
export type TransferRequestRow = Selectable<TransferRequestsTable>;
export type ProjectRow = Selectable<ProjectsTable>;
export type ApiKeyRow = Selectable<ApiKeysTable>;
export type TimelineRow = Selectable<TimelinesTable>;
export type TimelineSnapshotRow = Selectable<TimelineSnapshotsTable>;
export type HistoryDamageRow = Selectable<HistoryDamagesTable>;
export type BranchRow = Selectable<BranchesTable>;
export type BranchMaskingRow = Selectable<BranchMaskingsTable>;
export type SnapshotRow = Selectable<SnapshotsTable>;
export type BackupScheduleRow = Selectable<BackupSchedulesTable>;
export type EndpointRow = Selectable<EndpointsTable>;
export type RoleRow = Selectable<RolesTable>;
export type ProjectJwksRow = Selectable<ProjectJwksTable>;
export type DatabaseRow = Selectable<DatabasesTable>;
export type OperationRow = Selectable<OperationsTable>;
export type BackupRequestRow = Selectable<BackupRequestsTable>;
export type ExportRow = Selectable<ExportsTable>;
