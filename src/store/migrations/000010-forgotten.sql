-- What is forgotten is found by its age.
create index timeline_snapshots_purged_at_idx on timeline_snapshots (purged_at) where purged_at is not null;
create index endpoints_deleted_at_idx on endpoints (deleted_at) where deleted_at is not null;
create index branches_deleted_at_idx on branches (deleted_at) where deleted_at is not null;
create index timelines_purged_at_idx on timelines (purged_at) where purged_at is not null;
create index snapshots_deleted_at_idx on snapshots (deleted_at) where deleted_at is not null;

-- Whether something refers to a row is looked up for each row that is forgotten.
create index branches_any_parent_id_idx on branches (parent_id) where parent_id is not null;
create index branches_restored_as_idx on branches (restored_as) where restored_as is not null;
create index branches_ephemeral_of_idx on branches (ephemeral_of) where ephemeral_of is not null;
create index endpoints_any_branch_id_idx on endpoints (branch_id);
create index endpoints_serves_timeline_id_idx on endpoints (serves_timeline_id) where serves_timeline_id is not null;
create index endpoints_replica_timeline_id_idx on endpoints (replica_timeline_id) where replica_timeline_id is not null;
create index databases_any_branch_id_idx on databases (branch_id);
create index timelines_parent_id_idx on timelines (parent_id) where parent_id is not null;
create index timeline_snapshots_any_timeline_id_idx on timeline_snapshots (timeline_id);
create index snapshots_source_branch_id_idx on snapshots (source_branch_id);
create index snapshots_timeline_id_idx on snapshots (timeline_id);
-- Operations are the one large table. They tell what was done to something, and are forgotten before it is: nothing is looked up.
alter table operations
  drop constraint operations_branch_id_fkey,
  drop constraint operations_endpoint_id_fkey,
  drop constraint operations_timeline_id_fkey,
  drop constraint operations_source_timeline_id_fkey;

-- Of migration 4, but that roles and databases of a deleted branch go without a word: its deletion was told.
create or replace function record_event() returns trigger language plpgsql as $$
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
    select b.project_id, b.ephemeral_of, b.created_at, b.deleted_at into branch from coppice.branches b where b.id = row_now ->> 'branch_id';
    project := branch.project_id;
    -- Passing copies for clients who look into the past are shown to nobody.
    if branch.ephemeral_of is not null then return null; end if;
    -- What a branch is made with is told by the branch.
    if noun in ('role', 'database') and tg_op = 'INSERT' and branch.created_at = now() then return null; end if;
    if noun in ('role', 'database') and branch.deleted_at is not null then return null; end if;
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
