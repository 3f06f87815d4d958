-- Intent is what the API was told; observation is what a driver last saw. Columns under an "observed" comment are
-- written by the engine alone.

create table users (
  id uuid primary key default gen_random_uuid(),
  email text not null,
  name text not null default '',
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now()
);
create unique index users_email_key on users (lower(email));

create table organizations (
  id text primary key,
  name text not null,
  handle text not null unique,
  plan text not null default 'self-hosted',
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now()
);

create table memberships (
  id uuid primary key default gen_random_uuid(),
  organization_id text not null references organizations,
  user_id uuid not null references users,
  role text not null check (role in ('admin', 'member')),
  joined_at timestamptz not null default now(),
  unique (organization_id, user_id)
);
create index memberships_user_id_idx on memberships (user_id);

create table projects (
  id text primary key,
  organization_id text not null references organizations,
  name text not null,
  region_id text not null,
  pg_version integer not null,
  distribution_id text not null,
  provisioner text not null,
  store_passwords boolean not null,
  history_retention_seconds integer not null,
  default_endpoint_settings jsonb not null,
  settings jsonb not null,
  -- The user that this project's computes run under; unique while anything of the project is left.
  uid integer not null,
  created_by uuid references users,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  deleted_at timestamptz,
  -- observed
  applied_history_retention_seconds integer,
  purged_at timestamptz
);
create index projects_organization_id_created_at_idx on projects (organization_id, created_at desc, id) where deleted_at is null;
create unique index projects_uid_key on projects (uid) where purged_at is null;

create table api_keys (
  id bigint generated always as identity (start with 1000001) primary key,
  kind text not null check (kind in ('personal', 'organization', 'project')),
  name text not null,
  secret_hash bytea not null unique,
  user_id uuid references users,
  organization_id text references organizations,
  project_id text references projects,
  created_by uuid not null references users,
  created_at timestamptz not null default now(),
  revoked_at timestamptz,
  -- observed
  last_used_at timestamptz,
  last_used_from_addr text,
  check (
    (kind = 'personal' and user_id is not null and organization_id is null and project_id is null)
    or (kind = 'organization' and user_id is null and organization_id is not null and project_id is null)
    or (kind = 'project' and user_id is null and organization_id is not null and project_id is not null)
  )
);
create index api_keys_user_id_idx on api_keys (user_id) where revoked_at is null;

-- The unit of history: one volume. A branch points at one.
create table timelines (
  id uuid primary key,
  project_id text not null references projects,
  parent_id uuid references timelines,
  distribution_id text not null,
  created_at timestamptz not null default now(),
  deleted_at timestamptz,
  -- observed
  volume jsonb,
  system_identifier text,
  ready_at timestamptz,
  applied_config_generation bigint not null default 0,
  logical_size_bytes bigint,
  unshared_size_bytes bigint,
  measured_at timestamptz,
  purged_at timestamptz
);
create index timelines_project_id_idx on timelines (project_id) where purged_at is null;

create table branches (
  id text primary key,
  project_id text not null references projects,
  timeline_id uuid not null references timelines,
  parent_id text references branches,
  parent_lsn text,
  parent_timestamp timestamptz,
  name text not null,
  is_default boolean not null default false,
  protected boolean not null default false,
  init_source text not null default 'parent-data',
  annotations jsonb not null default '{}',
  created_by uuid references users,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  expires_at timestamptz,
  -- How long the branch was to live when its expiry was last set; a reset grants that much again.
  ttl_interval_seconds integer,
  deleted_at timestamptz,
  -- Counts changes of roles and databases; compared with timelines.applied_config_generation.
  config_generation bigint not null default 1
);
create unique index branches_project_id_name_key on branches (project_id, name) where deleted_at is null;
create unique index branches_default_key on branches (project_id) where is_default and deleted_at is null;
create index branches_parent_id_idx on branches (parent_id) where deleted_at is null;
create index branches_timeline_id_idx on branches (timeline_id);

create table endpoints (
  id text primary key,
  project_id text not null references projects,
  branch_id text not null references branches,
  name text,
  type text not null check (type in ('read_write', 'read_only')),
  min_cu double precision not null,
  max_cu double precision not null,
  suspend_timeout_seconds integer not null,
  pg_settings jsonb not null default '{}',
  pooler_enabled boolean not null default false,
  passwordless_access boolean not null default true,
  disabled boolean not null default false,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  deleted_at timestamptz,
  -- observed
  observed_state text not null default 'none' check (observed_state in ('none', 'running', 'stopping', 'stopped')),
  compute jsonb,
  -- The timeline that its server was last started on: another than the branch's while the endpoint or the branch moves.
  serves_timeline_id uuid references timelines,
  -- What the running server was told last, at its start or since; a difference from the intent is brought to it.
  spec_hash text,
  current_cu double precision,
  started_at timestamptz,
  suspended_at timestamptz,
  last_active_at timestamptz,
  crashes integer not null default 0,
  removed_at timestamptz
);
create unique index endpoints_read_write_key on endpoints (branch_id) where type = 'read_write' and deleted_at is null;
create index endpoints_project_id_idx on endpoints (project_id) where deleted_at is null;
create index endpoints_branch_id_idx on endpoints (branch_id) where deleted_at is null;
create index endpoints_active_idx on endpoints (id) where observed_state in ('running', 'stopping');

create table roles (
  id bigint generated always as identity primary key,
  branch_id text not null references branches,
  name text not null,
  origin text not null check (origin in ('api', 'sql')),
  can_login boolean not null default true,
  -- Postgres's text form of the SCRAM verifier; null without a password.
  verifier text,
  -- The password under the master key; null when it is not stored or was set in SQL.
  sealed_password bytea,
  valid_until timestamptz,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  -- Dropped from the server, and then from here, by the next apply_config.
  deleted_at timestamptz,
  -- observed: the verifier in the server, which differs while a new password waits
  applied_verifier text
);
create unique index roles_branch_id_name_key on roles (branch_id, name);

create table databases (
  id bigint generated always as identity (start with 1000001) primary key,
  branch_id text not null references branches,
  name text not null,
  owner_name text not null,
  origin text not null check (origin in ('api', 'sql')),
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  deleted_at timestamptz,
  -- observed: name and owner in the server; they differ from the intent while a change waits
  applied_name text,
  applied_owner_name text
);
create unique index databases_branch_id_name_key on databases (branch_id, name) where deleted_at is null;

-- One API call or platform decision. Its operations run in order; calls that conflict run in the order of seq.
create table calls (
  id uuid primary key,
  seq bigint generated always as identity unique,
  project_id text not null references projects,
  created_at timestamptz not null default now(),
  finished_at timestamptz,
  -- Not before: a retry that waits.
  run_at timestamptz,
  -- The worker that runs it now.
  held_by text
);
create index calls_unfinished_idx on calls (project_id, seq) where finished_at is null;

create table operations (
  id uuid primary key,
  call_id uuid not null references calls,
  position integer not null,
  project_id text not null references projects,
  branch_id text references branches,
  endpoint_id text references endpoints,
  timeline_id uuid references timelines,
  -- The timeline that a branch is made from.
  source_timeline_id uuid references timelines,
  action text not null,
  -- What it touches, from the table of kinds: `project:<id>`, `timeline:<id>`, `endpoint:<id>`.
  claims_exclusive text[] not null,
  claims_shared text[] not null,
  status text not null check (status in ('scheduling', 'running', 'finished', 'failed', 'cancelling', 'cancelled', 'skipped')),
  arguments jsonb not null default '{}',
  error text,
  failures_count integer not null default 0,
  retry_at timestamptz,
  created_at timestamptz not null default clock_timestamp(),
  updated_at timestamptz not null default clock_timestamp(),
  started_at timestamptz,
  finished_at timestamptz,
  unique (call_id, position)
);
create index operations_project_id_created_at_idx on operations (project_id, created_at desc, id);
create index operations_unfinished_endpoint_idx on operations (endpoint_id)
  where status in ('scheduling', 'running', 'cancelling');
create index operations_unfinished_project_idx on operations (project_id)
  where status in ('scheduling', 'running', 'cancelling');

-- Processes that run operations. One that stops beating is dead, and what it held is taken over; so is one of the same
-- data directory, since only one process at a time can own that.
create table workers (
  id text primary key,
  data_directory_id text not null,
  started_at timestamptz not null default now(),
  heartbeat_at timestamptz not null default now()
);

-- Facts of this installation that must not change under it.
create table installation (
  singleton boolean primary key default true check (singleton),
  id uuid not null default gen_random_uuid(),
  created_at timestamptz not null default now()
);
insert into installation default values;

-- How full each storage pool was when last looked at; new branches, projects and starts are refused below the reserve.
create table storage_pools (
  name text primary key,
  driver text not null,
  path text not null,
  total_bytes bigint not null,
  free_bytes bigint not null,
  reserve_bytes bigint not null,
  observed_at timestamptz not null default now()
);

-- Whoever caches or waits hears of every change, whoever made it: `<noun> <id>` on one channel.
-- The trigger's arguments: the noun, and the column that holds its id.
create function announce() returns trigger language plpgsql as $$
declare
  row_now jsonb := case when tg_op = 'DELETE' then to_jsonb(old) else to_jsonb(new) end;
begin
  perform pg_notify('coppice', tg_argv[0] || ' ' || (row_now ->> tg_argv[1]));
  return null;
end $$;
create trigger announce after insert or update or delete on endpoints
  for each row execute function announce('endpoint', 'id');
create trigger announce after update or delete on branches
  for each row execute function announce('branch', 'id');
create trigger announce after insert or update or delete on roles
  for each row execute function announce('branch', 'branch_id');
create trigger announce after update of status on operations
  for each row execute function announce('operation', 'id');
