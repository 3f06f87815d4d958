-- The past of branches. A timeline's history is its snapshots, and the write-ahead log between and after them.

alter table timelines
  -- observed: where its history begins (the consistent end of what it was made from), and how far it was last seen to reach
  add column birth_lsn text,
  add column birth_at timestamptz,
  add column head_lsn text,
  add column head_at timestamptz,
  -- observed: when every file of its archive was last compared with its checksum
  add column archive_checked_at timestamptz,
  -- observed: since when something of it may be in object storage, since when it is there alone, and when it last came back
  add column stored_at timestamptz,
  add column archived_at timestamptz,
  add column unarchived_at timestamptz,
  -- observed: since when it is in object storage alone because its whole project is, and when it last came back from there
  add column detached_at timestamptz,
  add column reattached_at timestamptz;
create index timelines_stored_idx on timelines (id) where stored_at is not null;
create index timelines_archived_idx on timelines (project_id) where archived_at is not null;
create index timelines_detached_idx on timelines (project_id) where detached_at is not null;

-- Frozen copies of a timeline's volume that the engine makes, to replay from. The row comes first, so that a copy whose
-- making was interrupted is known and removed.
create table timeline_snapshots (
  id uuid primary key,
  timeline_id uuid not null references timelines,
  kind text not null check (kind in ('birth', 'suspend', 'running')),
  created_at timestamptz not null default clock_timestamp(),
  deleted_at timestamptz,
  -- observed: everything before lsn is in it, and no commit of it is later than taken_at
  volume jsonb,
  lsn text,
  taken_at timestamptz,
  -- observed: what its removal would free
  unshared_size_bytes bigint,
  measured_at timestamptz,
  purged_at timestamptz
);
create index timeline_snapshots_timeline_id_idx on timeline_snapshots (timeline_id, taken_at) where purged_at is null;

-- What is wrong with a history, until it is mended or out of the window.
create table history_damages (
  id bigint generated always as identity primary key,
  timeline_id uuid not null references timelines,
  -- missing_segment, wrong_header, wrong_checksum, missing_snapshot, damaged_object
  kind text not null,
  -- the segment's or the snapshot's name
  object text not null,
  detail text not null,
  found_at timestamptz not null default clock_timestamp(),
  resolved_at timestamptz
);
create unique index history_damages_open_key on history_damages (timeline_id, kind, object) where resolved_at is null;

alter table branches
  add column last_reset_at timestamptz,
  -- While a restore makes the timeline that the branch points at already: the one it had, to which it returns if that fails.
  add column previous_timeline_id uuid references timelines,
  -- How a branch that was made from a snapshot came to be.
  add column restore_status text check (restore_status in ('restored', 'finalized', 'detaching')),
  add column restored_from text,
  add column restored_as text references branches,
  -- The branch that this is a passing copy of, at its parent_lsn, for clients who look into the past. The API shows no such
  -- copy, it counts nowhere, and it is nobody's child.
  add column ephemeral_of text references branches;

create index branches_ephemeral_idx on branches (project_id) where ephemeral_of is not null and deleted_at is null;
-- A name that a passing copy has is free.
drop index branches_project_id_name_key;
create unique index branches_project_id_name_key on branches (project_id, name)
  where deleted_at is null and ephemeral_of is null;
create index branches_previous_timeline_id_idx on branches (previous_timeline_id) where previous_timeline_id is not null;

-- A restore that is under way: what its branch returns to when it fails, and what the branch takes over when it succeeds.
create table branch_restores (
  branch_id text primary key references branches,
  -- The branch that keeps the state from before, if there is to be one.
  preserved_branch_id text references branches,
  -- From before.
  parent_id text references branches,
  parent_lsn text,
  parent_timestamp timestamptz,
  init_source text not null,
  last_reset_at timestamptz,
  -- Rows for the tables of these names, passwords sealed as there.
  roles jsonb not null,
  databases jsonb not null
);

create index branches_expires_at_idx on branches (expires_at) where deleted_at is null and expires_at is not null;

-- Snapshots of the API. Each has a timeline of its own, which no branch points at and no compute runs on.
create table snapshots (
  id text primary key,
  project_id text not null references projects,
  source_branch_id text not null references branches,
  timeline_id uuid not null references timelines,
  name text not null,
  -- The roles and databases that are in it, as the branch had them; passwords are sealed for the source branch.
  config jsonb not null,
  -- observed: everything before lsn is in it
  lsn text,
  "timestamp" timestamptz,
  manual boolean not null default true,
  created_by uuid references users,
  created_at timestamptz not null default now(),
  expires_at timestamptz,
  deleted_at timestamptz
);
create index snapshots_project_id_idx on snapshots (project_id) where deleted_at is null;
create index snapshots_expires_at_idx on snapshots (expires_at) where deleted_at is null;

create table backup_schedules (
  id bigint generated always as identity primary key,
  branch_id text not null references branches,
  frequency text not null check (frequency in ('hourly', 'daily', 'weekly', 'monthly', 'yearly')),
  hour integer,
  day integer,
  month integer,
  retention_seconds integer,
  created_at timestamptz not null default now(),
  -- The time of the schedule that was last served, whether or not it was on time.
  last_due_at timestamptz
);
create index backup_schedules_branch_id_idx on backup_schedules (branch_id);

-- Who waits for times to come hears of new ones.
create trigger announce after insert or update of expires_at on snapshots
  for each row execute function announce('snapshot', 'id');
create trigger announce after insert on backup_schedules
  for each row execute function announce('schedule', 'id');

alter table endpoints
  -- observed, of read replicas: the volume that the standby runs on, what it was cloned from, and how far it is behind
  add column replica_volume jsonb,
  add column replica_timeline_id uuid references timelines,
  add column replica_lag_bytes bigint,
  add column replica_lag_seconds double precision;

-- Observed: the write-ahead log that is not in object storage yet, and why that is so.
create table log_shipping (
  singleton boolean primary key default true check (singleton),
  waiting_segments bigint not null,
  waiting_since timestamptz,
  failure text,
  failing_since timestamptz,
  observed_at timestamptz not null default clock_timestamp()
);

-- A backup that somebody makes and waits with until the engine has taken the snapshots that it will be of.
create table backup_requests (
  id uuid primary key default gen_random_uuid(),
  asked_at timestamptz not null default clock_timestamp(),
  -- observed: timelines to take one of, those that are done, and what could not be taken
  timelines integer not null default 0,
  timelines_done integer not null default 0,
  problems jsonb not null default '[]',
  snapshots_at timestamptz
);
create trigger announce after insert or update of asked_at on backup_requests
  for each row execute function announce('backup', 'id');

-- A branch that somebody copies to another system. Whoever asked holds a lock of its number while it reads the base: a copy
-- of the branch's volume, named after the row, which the engine makes and, when nobody holds the lock any more, removes.
create table exports (
  id uuid primary key default gen_random_uuid(),
  number integer generated always as identity,
  branch_id text not null references branches,
  asked_at timestamptz not null default clock_timestamp(),
  -- observed: when a server was found to copy from, and what became of it
  begun_at timestamptz,
  base jsonb,
  error text,
  ended_at timestamptz
);
create trigger announce after insert or update of ended_at on exports
  for each row execute function announce('export', 'id');

-- Gateways keep in mind from where clients of a project may come.
create trigger announce after update of settings on projects
  for each row when (old.settings is distinct from new.settings) execute function announce('access', 'id');
create trigger announce_access after update of protected on branches
  for each row when (old.protected is distinct from new.protected) execute function announce('access', 'project_id');

-- Whose tokens (JWT) let clients in.
create table project_jwks (
  id uuid primary key default gen_random_uuid(),
  project_id text not null references projects,
  -- Null: every branch of the project.
  branch_id text references branches,
  jwks_url text not null,
  provider_name text not null,
  jwt_audience text,
  role_names text[] not null,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now()
);
create index project_jwks_project_id_idx on project_jwks (project_id);
create index project_jwks_branch_id_idx on project_jwks (branch_id) where branch_id is not null;
create trigger announce after insert or update or delete on project_jwks
  for each row execute function announce('access', 'project_id');

-- `token`: made for those who come with a token. It may log in, and has what it is granted.
alter table roles drop constraint roles_origin_check,
  add constraint roles_origin_check check (origin in ('api', 'sql', 'token'));
