import { LOGIN_ERRORS } from './login-errors.ts';
import { QUOTA_ERRORS } from './quota-errors.ts';

/**
 * The one error table. A row tells the HTTP status, the code that clients match (mostly empty, as in the public API),
 * the sentence, and what a caller may do. `{name}` in a message is filled from the parameters given at the throw.
 */

import { MASKING_ERRORS } from './masking/masking-errors.ts';

export type RetryClass = 'never' | 'after_change' | 'safe';

export interface ErrorKind {
  readonly status: number;
  readonly code: string;
  readonly message: string;
  readonly retry: RetryClass;
}

export const ERRORS = {
  unauthenticated: {
    status: 401,
    code: '',
    message: 'supplied credentials do not pass authentication',
    retry: 'never',
  },
  route_not_found: { status: 404, code: '', message: 'this route does not exist', retry: 'never' },
  rate_limited: {
    status: 429,
    code: '',
    message: 'too many requests with this API key; limit:"{quota} in {window_seconds} s"',
    retry: 'safe',
  },
  method_not_allowed: {
    status: 405,
    code: '',
    message: 'this route does not answer to {method}; allowed:"{allowed}"',
    retry: 'never',
  },
  invalid_request: {
    status: 400,
    code: '',
    message: 'invalid request; field:"{field}", problem:"{problem}"',
    retry: 'after_change',
  },
  invalid_json: { status: 400, code: '', message: 'the request body is not valid JSON', retry: 'after_change' },
  body_too_large: {
    status: 413,
    code: '',
    message: 'the request body is larger than {limit_bytes} bytes',
    retry: 'after_change',
  },
  unsupported_media_type: {
    status: 415,
    code: '',
    message: 'the request body must be application/json; content_type:"{content_type}"',
    retry: 'after_change',
  },
  not_found: { status: 404, code: '', message: '{noun} not found', retry: 'never' },
  organization_key_refused: {
    status: 404,
    code: '',
    message: 'not allowed for organization API keys',
    retry: 'never',
  },
  project_key_out_of_scope: {
    status: 404,
    code: '',
    message:
      'not allowed to perform actions outside the project this key is scoped to; subject_project_id:"{project_id}"',
    retry: 'never',
  },
  project_key_refused: { status: 404, code: '', message: 'not allowed for project-scoped API keys', retry: 'never' },
  key_read_only: {
    status: 403,
    code: '',
    message: 'this API key is read-only: it changes nothing, and is shown no passwords and connection strings',
    retry: 'never',
  },
  permission_denied: {
    status: 403,
    code: '',
    message: 'not allowed; this needs the role {role} in the organization',
    retry: 'never',
  },
  last_admin: {
    status: 422,
    code: '',
    message: 'cannot {verb} the last admin of an organization; make another member an admin first',
    retry: 'after_change',
  },
  member_exists: {
    status: 409,
    code: '',
    message: 'already a member of the organization; email:"{email}"',
    retry: 'never',
  },
  user_exists: { status: 409, code: '', message: 'user already exists; email:"{email}"', retry: 'never' },
  invitations_limit: {
    status: 422,
    code: 'INVITATIONS_LIMIT_EXCEEDED',
    message: 'open invitations limit exceeded; limit:"{limit}"',
    retry: 'after_change',
  },
  permissions_limit: {
    status: 422,
    code: 'PERMISSIONS_LIMIT_EXCEEDED',
    message: 'permissions limit exceeded; limit:"{limit}"',
    retry: 'after_change',
  },
  transfer_requests_limit: {
    status: 422,
    code: 'TRANSFER_REQUESTS_LIMIT_EXCEEDED',
    message: 'open transfer requests limit exceeded; limit:"{limit}"',
    retry: 'after_change',
  },
  project_already_there: {
    status: 422,
    code: '',
    message: 'the project belongs to that organization already; project_id:"{project_id}", org_id:"{org_id}"',
    retry: 'never',
  },
  organization_required: {
    status: 400,
    code: '',
    message: 'org_id is required; you are a member of {count} organizations',
    retry: 'after_change',
  },
  pg_version_unknown: {
    status: 400,
    code: '',
    message: 'this server has no Postgres of that version; pg_version:"{version}", available:"{available}"',
    retry: 'after_change',
  },
  region_unknown: {
    status: 400,
    code: '',
    message: 'unknown region; region_id:"{region_id}", available:"{available}"',
    retry: 'after_change',
  },
  logical_replication_stays: {
    status: 422,
    code: '',
    message: 'enable_logical_replication cannot be switched off once it is on',
    retry: 'never',
  },
  branch_exists: {
    status: 409,
    code: 'BRANCH_ALREADY_EXISTS',
    message: 'branch already exists; branch_name:"{name}"',
    retry: 'after_change',
  },
  role_exists: { status: 409, code: '', message: 'role already exists; role_name:"{name}"', retry: 'after_change' },
  database_exists: {
    status: 409,
    code: '',
    message: 'database already exists; database_name:"{name}"',
    retry: 'after_change',
  },
  database_owner_not_found: {
    status: 404,
    code: '',
    message: 'database owner not found; role_name:"{name}"',
    retry: 'after_change',
  },
  role_owns_databases: {
    status: 422,
    code: '',
    message: 'cannot delete a role that owns databases; role_name:"{name}", databases:"{databases}"',
    retry: 'after_change',
  },
  name_reserved: { status: 422, code: '', message: '{noun} name is reserved; name:"{name}"', retry: 'after_change' },
  role_protected: {
    status: 422,
    code: 'ROLE_PROTECTED',
    message: 'role is protected; role_name:"{name}"',
    retry: 'never',
  },
  role_cannot_login: {
    status: 422,
    code: '',
    message: 'role cannot log in, so it has no password; role_name:"{name}"',
    retry: 'never',
  },
  roles_limit: {
    status: 422,
    code: 'ROLES_LIMIT_EXCEEDED',
    message: 'roles limit exceeded; limit:"{limit}"',
    retry: 'after_change',
  },
  databases_limit: {
    status: 422,
    code: 'DATABASES_LIMIT_EXCEEDED',
    message: 'databases limit exceeded; limit:"{limit}"',
    retry: 'after_change',
  },
  jwks_limit: {
    status: 422,
    code: 'JWKS_LIMIT_EXCEEDED',
    message: 'JWKS limit exceeded; limit:"{limit}"',
    retry: 'after_change',
  },
  endpoint_exists: {
    status: 422,
    code: 'ENDPOINTS_LIMIT_EXCEEDED',
    message: 'read_write endpoint already exists; branch_id:"{branch_id}", endpoint_id:"{endpoint_id}"',
    retry: 'after_change',
  },
  endpoint_disabled: {
    status: 422,
    code: '',
    message: 'endpoint is disabled; endpoint_id:"{id}"',
    retry: 'after_change',
  },
  endpoint_transitional: {
    status: 423,
    code: '',
    message: 'endpoint is in some transitive state, could not {verb}',
    retry: 'safe',
  },
  endpoint_not_active: {
    status: 422,
    code: '',
    message: 'endpoint is not active, only an active endpoint can be restarted; endpoint_id:"{id}"',
    retry: 'after_change',
  },
  branch_not_ready: { status: 422, code: '', message: 'branch not ready yet', retry: 'safe' },
  ...MASKING_ERRORS,
  branch_has_children: {
    status: 422,
    code: '',
    message: 'cannot delete branch that has children: {children}',
    retry: 'after_change',
  },
  branch_protected: { status: 422, code: '', message: 'cannot {verb} protected branch', retry: 'after_change' },
  preserve_name_required: {
    status: 422,
    code: '',
    message: 'preserve_under_name is required, since {reason}',
    retry: 'after_change',
  },
  branch_expiring: {
    status: 422,
    code: '',
    message: 'cannot {verb} a branch that expires; branch_id:"{id}"',
    retry: 'after_change',
  },
  branch_cannot_expire: {
    status: 422,
    code: '',
    message: 'branch cannot expire, since {reason}; branch_id:"{id}"',
    retry: 'after_change',
  },
  branch_without_lease: {
    status: 422,
    code: '',
    message: 'branch does not expire, so there is no lease to renew; branch_id:"{id}"',
    retry: 'after_change',
  },
  branch_default: { status: 422, code: '', message: 'cannot delete the default branch', retry: 'after_change' },
  branch_not_root: {
    status: 422,
    code: '',
    message: 'only root branches can {verb}; branch_id:"{id}", parent_id:"{parent_id}"',
    retry: 'never',
  },
  snapshot_not_ready: { status: 423, code: '', message: 'snapshot is still being made; id:"{id}"', retry: 'safe' },
  snapshot_failed: {
    status: 422,
    code: '',
    message: 'snapshot could not be made and holds nothing; delete it; id:"{id}"',
    retry: 'never',
  },
  snapshots_limit: {
    status: 422,
    code: 'SNAPSHOTS_LIMIT_EXCEEDED',
    message: 'snapshots limit exceeded; limit:"{limit}"',
    retry: 'after_change',
  },
  restore_not_finalizable: {
    status: 422,
    code: '',
    message: 'restore cannot be finalized, since {reason}; branch_id:"{id}"',
    retry: 'after_change',
  },
  branch_not_deleted: { status: 422, code: '', message: 'branch is not deleted; branch_id:"{id}"', retry: 'never' },
  branch_parent_deleted: {
    status: 422,
    code: '',
    message: 'the parent of the branch was deleted, too, and comes back first; parent_id:"{parent_id}"',
    retry: 'after_change',
  },
  project_not_deleted: {
    status: 422,
    code: '',
    message: 'project is not deleted; project_id:"{project_id}"',
    retry: 'never',
  },
  project_has_protected_branch: {
    status: 422,
    code: '',
    message: 'cannot delete project with a protected branch; branches:"{branches}"',
    retry: 'after_change',
  },
  invalid_size: {
    status: 400,
    code: '',
    message: 'compute size is not allowed; problem:"{problem}"',
    retry: 'after_change',
  },
  point_outside_history: {
    status: 400,
    code: 'WRONG_LSN_OR_TIMESTAMP',
    message:
      'there is no history at {point}: it reaches from {from_timestamp} (LSN {from_lsn}) to {to_timestamp} (LSN {to_lsn})',
    retry: 'after_change',
  },
  points_exceeded: {
    status: 423,
    code: '',
    message: 'clients of this project are connected to {limit} points of the past, which is as many as there can be',
    retry: 'safe',
  },
  schema_unreadable: {
    status: 422,
    code: '',
    message: 'the schema could not be read: {reason}; branch_id:"{branch_id}", db_name:"{database}"',
    retry: 'after_change',
  },
  schema_not_copied: {
    status: 422,
    code: '',
    message: 'the schema of the source branch could not be copied: {reason}',
    retry: 'after_change',
  },
  schema_busy: {
    status: 423,
    code: '',
    message: 'too many schemas of this project are being read; limit:"{limit}"',
    retry: 'safe',
  },
  branch_without_compute: {
    status: 422,
    code: '',
    message: 'branch has no read_write endpoint to {verb} with; branch_id:"{id}"',
    retry: 'after_change',
  },
  retention_too_long: {
    status: 400,
    code: '',
    message:
      'requested history retention seconds exceeds allowed maximum; requested_history_retention_seconds:"{requested}", max:"{max}"',
    retry: 'after_change',
  },
  not_available: { status: 501, code: '', message: '{feature} is not available on this server', retry: 'never' },
  not_enabled: { status: 404, code: '', message: '{feature} is not enabled', retry: 'never' },
  passwords_not_stored: {
    status: 412,
    code: '',
    message: 'the project does not store passwords; project_id:"{project_id}"',
    retry: 'never',
  },
  role_without_password: {
    status: 404,
    code: '',
    message: 'role has no password to reveal; role_name:"{name}"',
    retry: 'never',
  },
  operations_running: {
    status: 423,
    code: '',
    message: 'project already has running conflicting operations, scheduling of new ones is prohibited',
    retry: 'safe',
  },
  idempotency_key_reused: {
    status: 422,
    code: '',
    message: 'another request was made with this Idempotency-Key',
    retry: 'never',
  },
  idempotency_key_busy: {
    status: 423,
    code: '',
    message: 'the first request with this Idempotency-Key has not been answered yet',
    retry: 'safe',
  },
  idempotency_keys_exceeded: {
    status: 422,
    code: 'IDEMPOTENCY_KEYS_LIMIT_EXCEEDED',
    message: 'idempotency keys limit exceeded, they are kept for 24 hours; limit:"{limit}"',
    retry: 'after_change',
  },
  webhooks_limit: {
    status: 422,
    code: 'WEBHOOKS_LIMIT_EXCEEDED',
    message: 'webhooks limit exceeded; limit:"{limit}"',
    retry: 'after_change',
  },
  events_forgotten: {
    status: 410,
    code: '',
    message: 'events after that one are not kept any more; look at everything, and begin without an id',
    retry: 'never',
  },
  event_streams_exceeded: {
    status: 503,
    code: '',
    message: 'too many streams of events are open; limit of one key:"{limit}"',
    retry: 'safe',
  },
  waits_exceeded: {
    status: 503,
    code: '',
    message: 'too many requests wait for operations, please ask without waiting; limit:"{limit}"',
    retry: 'safe',
  },
  pg_setting_refused: {
    status: 400,
    code: '',
    message: 'Postgres setting cannot be changed here; name:"{name}", problem:"{problem}"',
    retry: 'after_change',
  },
  ...QUOTA_ERRORS,
  consumption_range: {
    status: 406,
    code: '',
    message:
      'the range is outside of what can be told {granularity}: hourly of the last 168 hours, daily of the last 60 days, monthly of the last year; from:"{from}", to:"{to}"',
    retry: 'after_change',
  },
  storage_full: {
    status: 422,
    code: '',
    message: 'the storage pool is too full for a new {noun}: {free_bytes} bytes free, {reserve_bytes} kept in reserve',
    retry: 'after_change',
  },
  object_storage_unreachable: {
    status: 503,
    code: '',
    message: 'object storage cannot be reached: {reason}',
    retry: 'safe',
  },
  object_storage_failed: {
    status: 500,
    code: '',
    message: 'object storage does not give what is needed: {reason}',
    retry: 'never',
  },
  history_damaged: {
    status: 500,
    code: '',
    message: 'nothing goes to object storage, since the history of a branch is damaged: {reason}',
    retry: 'never',
  },
  branch_unarchiving: {
    status: 423,
    code: '',
    message: 'the branch is being brought back from the archive, please try again; timeline_id:"{timeline_id}"',
    retry: 'safe',
  },
  branch_not_unarchived: {
    status: 503,
    code: '',
    message: 'the branch could not be brought back from the archive: {reason}',
    retry: 'safe',
  },
  ...LOGIN_ERRORS,
  unavailable: { status: 503, code: '', message: 'the service is not ready, please try again', retry: 'safe' },
  internal: {
    status: 500,
    code: '',
    message: 'internal error, see the server log under this request id',
    retry: 'safe',
  },
} as const satisfies Record<string, ErrorKind>;

export type ErrorName = keyof typeof ERRORS;

/** An error meant for the caller to read. Anything else that is thrown shows as `internal` with the request id. */
export class CoppiceError extends Error {
  readonly kind: ErrorName;
  readonly status: number;
  readonly code: string;
  readonly retry: RetryClass;

  constructor(kind: ErrorName, params: Readonly<Record<string, string | number>> = {}, options?: ErrorOptions) {
    const row: ErrorKind = ERRORS[kind];
    super(
      row.message.replace(/\{(\w+)\}/g, (_, name: string) => String(params[name] ?? '')),
      options,
    );
    this.name = 'CoppiceError';
    this.kind = kind;
    this.status = row.status;
    this.code = row.code;
    this.retry = row.retry;
  }
}
