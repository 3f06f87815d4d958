-- Callers that repeat a POST under the same key get the first answer again. The row is written in the transaction of what
-- was asked for, so that there is one exactly when that was done.
create table idempotency_keys (
  api_key_id bigint not null references api_keys,
  key text not null,
  -- SHA-256 of the address and the body
  request_hash bytea not null,
  -- Null only within that transaction.
  status integer,
  -- The body of the answer under the master key, since some tell a secret.
  sealed_answer bytea,
  created_at timestamptz not null default now(),
  primary key (api_key_id, key)
);
create index idempotency_keys_created_at_idx on idempotency_keys (created_at);

-- What changed, for those who follow it. Written by triggers, in the transaction of the change. Rows are read in the order
-- of (transaction, number) and only up to the oldest transaction that still runs: nothing can come before what was read.
create table events (
  transaction xid8 not null default pg_current_xact_id(),
  number bigint generated always as identity,
  created_at timestamptz not null default clock_timestamp(),
  type text not null,
  -- Who may see it: members of the organisation, and keys of the project; or that user alone.
  organization_id text,
  project_id text,
  user_id uuid,
  -- The id of what changed, or the name of a role.
  subject_id text not null,
  data jsonb not null,
  primary key (transaction, number)
);

create table event_log (
  singleton boolean primary key default true check (singleton),
  -- In the id of every event: numbers of transactions mean nothing in another database.
  epoch text not null default left(gen_random_uuid()::text, 8),
  -- The last event that is not kept any more.
  forgotten_transaction xid8 not null default '0',
  forgotten_number bigint not null default 0,
  -- Everything up to here is on its way to webhooks.
  sent_transaction xid8 not null default '0',
  sent_number bigint not null default 0
);
insert into event_log default values;

-- Where events of an organisation, or of one project of it, are sent to. Secrets are reckoned from the master key, the id and
-- the generation, and kept nowhere.
create table webhooks (
  id uuid primary key default gen_random_uuid(),
  organization_id text not null references organizations,
  project_id text references projects,
  url text not null,
  -- `branch.created`, `branch.*`; empty: all
  event_types text[] not null,
  secret_generation integer not null default 1,
  -- Until then what is sent is signed with the one before, too.
  former_secret_until timestamptz,
  created_by uuid references users,
  created_at timestamptz not null default now()
);
create index webhooks_organization_id_idx on webhooks (organization_id);

create table webhook_deliveries (
  id uuid primary key default gen_random_uuid(),
  webhook_id uuid not null references webhooks on delete cascade,
  event_id text not null,
  event_type text not null,
  -- What is sent, as it was when the event was.
  body text not null,
  created_at timestamptz not null default clock_timestamp(),
  status text not null default 'waiting' check (status in ('waiting', 'delivered', 'failed')),
  attempts integer not null default 0,
  due_at timestamptz not null default clock_timestamp(),
  -- observed: what came of the last attempt
  attempted_at timestamptz,
  response_status integer,
  error text
);
create index webhook_deliveries_webhook_id_idx on webhook_deliveries (webhook_id, created_at desc, id);
create index webhook_deliveries_due_idx on webhook_deliveries (due_at) where status = 'waiting';
create index webhook_deliveries_created_at_idx on webhook_deliveries (created_at);
create trigger announce after insert on webhook_deliveries
  for each row execute function announce('delivery', 'webhook_id');

create function announce_events() returns trigger language plpgsql as $$
begin
  perform pg_notify('coppice', 'event events');
  return null;
end $$;
create trigger announce after insert on events for each statement execute function announce_events();

-- Writes an event. The trigger's arguments: the noun, the column that holds its id, and the columns that are told.
create function record_event() returns trigger language plpgsql as $$
declare
  noun text := tg_argv[0];
  row_now jsonb;
  verb text;
  branch record;
  project text;
  organization text;
  facts jsonb;
begin
  if tg_op = 'DELETE' then row_now := to_jsonb(old); else row_now := to_jsonb(new); end if;
  project := case noun when 'project' then row_now ->> 'id' else row_now ->> 'project_id' end;
  if noun in ('endpoint', 'operation', 'role', 'database') and row_now ->> 'branch_id' is not null then
    select b.project_id, b.ephemeral_of, b.created_at into branch from coppice.branches b where b.id = row_now ->> 'branch_id';
    project := branch.project_id;
    -- Passing copies for clients who look into the past are shown to nobody.
    if branch.ephemeral_of is not null then return null; end if;
    -- What a branch is made with is told by the branch.
    if noun in ('role', 'database') and tg_op = 'INSERT' and branch.created_at = now() then return null; end if;
  elsif noun = 'branch' and row_now ->> 'ephemeral_of' is not null then
    return null;
  end if;
  verb := case
    when tg_op = 'INSERT' then 'created'
    when row_now ->> 'revoked_at' is not null then 'revoked'
    when tg_op = 'DELETE' or row_now ->> 'deleted_at' is not null then 'deleted'
    when to_jsonb(old) ->> 'deleted_at' is null then 'updated'
    -- The row of a role that is yet to be dropped is taken for a new one of its name.
    when noun in ('role', 'database') then 'created'
    else 'recovered'
  end;
  organization := row_now ->> 'organization_id';
  if organization is null and project is not null then
    select p.organization_id into organization from coppice.projects p where p.id = project;
  end if;
  select coalesce(jsonb_object_agg(key, value), '{}') into facts from jsonb_each(row_now)
  where key = any(tg_argv[2:]) and value <> 'null';
  insert into coppice.events (type, organization_id, project_id, user_id, subject_id, data) values (
    noun || '.' || verb, organization, project,
    case when noun = 'api_key' then (row_now ->> 'user_id')::uuid end,
    row_now ->> tg_argv[1], facts
  );
  return null;
end $$;

-- A branch is made, archived and brought back with its timeline.
create function record_branch_state() returns trigger language plpgsql as $$
begin
  insert into coppice.events (type, organization_id, project_id, subject_id, data)
  select 'branch.updated', projects.organization_id, branches.project_id, branches.id, jsonb_build_object(
    'name', branches.name,
    'current_state', case when new.archived_at is not null then 'archived' when new.ready_at is null then 'init' else 'ready' end
  )
  from coppice.branches join coppice.projects on projects.id = branches.project_id
  where branches.timeline_id = new.id and branches.deleted_at is null and branches.ephemeral_of is null;
  return null;
end $$;

create trigger event_insert after insert on projects
  for each row execute function record_event('project', 'id', 'name', 'pg_version', 'region_id');
create trigger event_update after update on projects for each row
  when ((old.deleted_at is null or new.deleted_at is null) and (old.name, old.organization_id, old.history_retention_seconds, old.settings,
      old.default_endpoint_settings, old.deleted_at)
    is distinct from (new.name, new.organization_id, new.history_retention_seconds, new.settings,
      new.default_endpoint_settings, new.deleted_at))
  execute function record_event('project', 'id', 'name', 'pg_version', 'region_id');

create trigger event_insert after insert on branches
  for each row execute function record_event('branch', 'id', 'name', 'parent_id', 'is_default', 'protected', 'expires_at');
create trigger event_update after update on branches for each row
  when ((old.deleted_at is null or new.deleted_at is null) and (old.name, old.parent_id, old.is_default, old.protected, old.expires_at, old.timeline_id,
      old.deleted_at)
    is distinct from (new.name, new.parent_id, new.is_default, new.protected, new.expires_at, new.timeline_id, new.deleted_at))
  execute function record_event('branch', 'id', 'name', 'parent_id', 'is_default', 'protected', 'expires_at');
create trigger event_state after update on timelines for each row
  when ((old.ready_at is null, old.archived_at is null) is distinct from (new.ready_at is null, new.archived_at is null))
  execute function record_branch_state();

create trigger event_insert after insert on endpoints
  for each row execute function record_event('endpoint', 'id', 'branch_id', 'type', 'name', 'min_cu', 'max_cu',
    'suspend_timeout_seconds', 'disabled', 'observed_state');
create trigger event_update after update on endpoints for each row
  when ((old.deleted_at is null or new.deleted_at is null) and (old.branch_id, old.name, old.min_cu, old.max_cu, old.suspend_timeout_seconds,
      old.pg_settings, old.disabled, old.observed_state, old.deleted_at)
    is distinct from (new.branch_id, new.name, new.min_cu, new.max_cu, new.suspend_timeout_seconds,
      new.pg_settings, new.disabled, new.observed_state, new.deleted_at))
  execute function record_event('endpoint', 'id', 'branch_id', 'type', 'name', 'min_cu', 'max_cu',
    'suspend_timeout_seconds', 'disabled', 'observed_state');

create trigger event_insert after insert on operations
  for each row execute function record_event('operation', 'id', 'branch_id', 'endpoint_id', 'action', 'status', 'error');
create trigger event_update after update of status on operations for each row when (old.status <> new.status)
  execute function record_event('operation', 'id', 'branch_id', 'endpoint_id', 'action', 'status', 'error');

create trigger event_insert after insert on roles
  for each row execute function record_event('role', 'name', 'branch_id', 'name');
create trigger event_update after update on roles for each row
  when ((old.deleted_at is null or new.deleted_at is null) and (old.can_login, old.verifier, old.valid_until, old.deleted_at)
    is distinct from (new.can_login, new.verifier, new.valid_until, new.deleted_at))
  execute function record_event('role', 'name', 'branch_id', 'name');
create trigger event_delete after delete on roles for each row when (old.deleted_at is null)
  execute function record_event('role', 'name', 'branch_id', 'name');

create trigger event_insert after insert on databases
  for each row execute function record_event('database', 'id', 'branch_id', 'name', 'owner_name');
create trigger event_update after update on databases for each row
  when ((old.deleted_at is null or new.deleted_at is null) and (old.name, old.owner_name, old.deleted_at)
    is distinct from (new.name, new.owner_name, new.deleted_at))
  execute function record_event('database', 'id', 'branch_id', 'name', 'owner_name');
create trigger event_delete after delete on databases for each row when (old.deleted_at is null)
  execute function record_event('database', 'id', 'branch_id', 'name', 'owner_name');

create trigger event_insert after insert on snapshots
  for each row execute function record_event('snapshot', 'id', 'name', 'source_branch_id', 'manual', 'expires_at');
create trigger event_update after update on snapshots for each row
  when ((old.deleted_at is null or new.deleted_at is null) and (old.name, old.expires_at, old.lsn, old.deleted_at)
    is distinct from (new.name, new.expires_at, new.lsn, new.deleted_at))
  execute function record_event('snapshot', 'id', 'name', 'source_branch_id', 'manual', 'expires_at');

create trigger event_insert after insert on api_keys
  for each row execute function record_event('api_key', 'id', 'name', 'kind');
create trigger event_update after update of revoked_at on api_keys for each row
  when (old.revoked_at is null and new.revoked_at is not null)
  execute function record_event('api_key', 'id', 'name', 'kind');
