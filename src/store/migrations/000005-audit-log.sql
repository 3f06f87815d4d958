-- A key that changes nothing.
alter table api_keys add column read_only boolean not null default false;

-- Who changed what. Rows are only ever added: nothing refers to them, and they say what was, not what is.

create table audit_log (
  id bigint generated always as identity primary key,
  at timestamptz not null default clock_timestamp(),
  -- Whose admins see it. A call that concerns several organisations has a row in each.
  organization_id text,
  project_id text,
  -- Null where no request was: the platform itself, a command on the machine.
  request_id text,
  actor_kind text not null
    check (actor_kind in ('personal_key', 'organization_key', 'project_key', 'command_line', 'platform')),
  user_id uuid,
  -- As it was then.
  user_email text,
  key_id bigint,
  address text,
  user_agent text,
  -- `branch.create`, `endpoint.restart`
  action text not null,
  -- What the path of the request named.
  target jsonb not null default '{}',
  -- What became different, thing by thing: noun, id, change, and the values before and after.
  changes jsonb not null default '[]',
  -- There was more than is kept.
  changes_cut boolean not null default false
);
create index audit_log_organization_id_idx on audit_log (organization_id, id desc);
create index audit_log_project_id_idx on audit_log (project_id, id desc);
create index audit_log_at_idx on audit_log (at);

create function audit_refuse() returns trigger language plpgsql as $$
begin
  if tg_op = 'DELETE' and current_setting('coppice.audit_retention', true) = 'on' then return old; end if;
  raise exception 'the log of changes is only added to' using errcode = 'insufficient_privilege';
end $$;
create trigger append_only before update or delete on audit_log for each row execute function audit_refuse();
create trigger append_only_all before truncate on audit_log for each statement execute function audit_refuse();

-- Forgets rows from before that time, so many at most; tells how many.
create function audit_forget(before timestamptz, most integer) returns bigint language plpgsql as $$
declare
  forgotten bigint;
begin
  perform set_config('coppice.audit_retention', 'on', true);
  with old_rows as (select id from coppice.audit_log where at < before order by at limit most)
  delete from coppice.audit_log using old_rows where audit_log.id = old_rows.id;
  get diagnostics forgotten = row_count;
  perform set_config('coppice.audit_retention', '', true);
  return forgotten;
end $$;

-- A transaction that says who acts (`coppice.audit`, see src/store/attributed.ts) gathers its changes in
-- `coppice.audit_changes`, a line each, and writes one row at its end. What changes in any other is the platform's own doing,
-- and is a row at once; `off`: nothing is noted.
-- The trigger's arguments: the noun, the column of the id, the columns that are shown, and those that are only said to have
-- changed, since they are secrets.
create function audit_change() returns trigger language plpgsql as $$
declare
  request text := coalesce(current_setting('coppice.audit', true), '');
  gathered text := coalesce(current_setting('coppice.audit_changes', true), '');
  noun text := tg_argv[0];
  shown text[] := tg_argv[2]::text[];
  secret text[] := tg_argv[3]::text[];
  old_row jsonb := case when tg_op = 'INSERT' then '{}' else to_jsonb(old) end;
  new_row jsonb := case when tg_op = 'DELETE' then '{}' else to_jsonb(new) end;
  row_now jsonb := case when tg_op = 'DELETE' then old_row else new_row end;
  was boolean := tg_op <> 'INSERT' and coalesce(old_row ->> 'deleted_at', old_row ->> 'revoked_at') is null;
  is_now boolean := tg_op <> 'DELETE' and coalesce(new_row ->> 'deleted_at', new_row ->> 'revoked_at') is null;
  change text := case when was and is_now then 'update' when is_now then 'create' else 'delete' end;
  project text := case noun when 'project' then row_now ->> 'id' else row_now ->> 'project_id' end;
  organization text := case noun when 'organization' then row_now ->> 'id' else row_now ->> 'organization_id' end;
  before jsonb := '{}';
  after jsonb := '{}';
  entry jsonb;
begin
  if not was and not is_now then return null; end if;
  -- Passing copies for clients who look into the past are nobody's intent.
  if row_now ->> 'ephemeral_of' is not null then return null; end if;
  if noun = 'endpoint' and exists (
    select from coppice.branches where id = row_now ->> 'branch_id' and ephemeral_of is not null
  ) then return null; end if;
  -- What a new branch takes over comes with the branch.
  if noun in ('role', 'database') and change = 'create' and exists (
    select from coppice.branches where id = row_now ->> 'branch_id' and created_at = now()
  ) then return null; end if;

  if was then
    select coalesce(jsonb_object_agg(key, value), '{}') into before from jsonb_each(old_row)
    where key = any(shown) and case when is_now then value is distinct from new_row -> key else value <> 'null' end;
  end if;
  if is_now then
    select coalesce(jsonb_object_agg(key, value), '{}') into after from jsonb_each(new_row)
    where key = any(shown) and case when was then value is distinct from old_row -> key else value <> 'null' end;
  end if;
  if change = 'update' then
    select after || coalesce(jsonb_object_agg(key, 'changed, and not shown'), '{}') into after from jsonb_each(new_row)
    where key = any(secret) and value is distinct from old_row -> key;
    if before = '{}' and after = '{}' then return null; end if;
  end if;
  entry := jsonb_strip_nulls(jsonb_build_object('noun', noun, 'id', row_now ->> tg_argv[1], 'change', change,
      'project_id', project, 'branch_id', case when noun <> 'branch' then row_now ->> 'branch_id' end,
      'organization_id', organization))
    || case when was then jsonb_build_object('before', before) else '{}' end
    || case when is_now then jsonb_build_object('after', after) else '{}' end;

  if request = '' then
    insert into coppice.audit_log (organization_id, project_id, actor_kind, action, changes) values (
      coalesce(organization, (select organization_id from coppice.projects where id = project)),
      project, 'platform', noun || '.' || change, jsonb_build_array(entry)
    );
  elsif octet_length(gathered) < 65536 then
    perform set_config('coppice.audit_changes', gathered || entry::text || E'\n', true);
  else
    perform set_config('coppice.audit_cut', 'on', true);
  end if;
  return null;
end $$;

-- Writes what the transaction gathered, in the log of each organisation that it concerns: the one that the request is about,
-- those that something of was changed, else those that the caller belongs to.
create function audit_write() returns void language plpgsql as $$
declare
  request jsonb := current_setting('coppice.audit')::jsonb;
  gathered jsonb;
  concerned text[];
begin
  select coalesce(jsonb_agg(line::jsonb order by number), '[]') into gathered
  from string_to_table(coalesce(current_setting('coppice.audit_changes', true), ''), E'\n') with ordinality as lines (line, number)
  where line <> '';
  if gathered = '[]' then return; end if;
  select array_agg(distinct id) into concerned from (
    select request ->> 'organization_id' as id
    union all select change ->> 'organization_id' from jsonb_array_elements(gathered) as change
    -- The one that a project leaves.
    union all select change -> 'before' ->> 'organization_id' from jsonb_array_elements(gathered) as change
  ) as ids where id is not null;
  if concerned is null then
    concerned := array(select jsonb_array_elements_text(request -> 'organization_ids'));
  end if;
  -- Somebody's key that was made by nobody who called.
  if cardinality(concerned) = 0 then
    concerned := array(select distinct organization_id from coppice.memberships where user_id::text in (
      select coalesce(change -> 'after', change -> 'before') ->> 'user_id' from jsonb_array_elements(gathered) as change
    ));
  end if;
  if cardinality(concerned) = 0 then concerned := array[null]::text[]; end if;
  insert into coppice.audit_log (organization_id, project_id, request_id, actor_kind, user_id, user_email, key_id, address,
    user_agent, action, target, changes, changes_cut)
  select id, coalesce(request -> 'target' ->> 'project_id', jsonb_path_query_first(gathered, '$[*].project_id') #>> '{}'),
    request ->> 'request_id', request ->> 'actor_kind', (request ->> 'user_id')::uuid, request ->> 'user_email',
    (request ->> 'key_id')::bigint, request ->> 'address', request ->> 'user_agent', request ->> 'action',
    coalesce(request -> 'target', '{}'), gathered, coalesce(current_setting('coppice.audit_cut', true), '') = 'on'
  from unnest(concerned) as ids (id);
  -- A second one of the same transaction would begin anew.
  perform set_config('coppice.audit_changes', '', true);
end $$;

-- Has the changes of a table noted. Updates that touch none of the columns, which observations are, cost a comparison.
-- `only_asked`: what the platform does there by itself is not intent.
create function audit_table(
  name text, noun text, id_column text, shown text[], secret text[] default '{}', only_asked boolean default false,
  left_out text[] default '{}'
) returns void language plpgsql as $$
declare
  watched text[] := shown || secret || array(
    select column_name::text from information_schema.columns
    where table_schema = 'coppice' and table_name = name and column_name in ('deleted_at', 'revoked_at')
  );
  noted text := case when only_asked then $w$current_setting('coppice.audit', true) not in ('', 'off')$w$
    else $w$coalesce(current_setting('coppice.audit', true), '') <> 'off'$w$ end;
  differs text := (
    select format('(%s) is distinct from (%s)', string_agg(format('old.%I', item), ', '), string_agg(format('new.%I', item), ', '))
    from unnest(watched) as items (item)
  );
  event text;
begin
  foreach event in array array['insert', 'update', 'delete'] loop
    continue when event = any(left_out);
    execute format('create trigger %I after %s on %I for each row when (%s) execute function audit_change(%L, %L, %L, %L)',
      'audit_' || event, event, name, case event when 'update' then noted || ' and ' || differs else noted end,
      noun, id_column, shown::text, secret::text);
  end loop;
end $$;

select audit_table('users', 'user', 'id', '{email,name}');
select audit_table('organizations', 'organization', 'id', '{name,handle,plan}');
select audit_table('memberships', 'membership', 'id', '{organization_id,user_id,role}');
select audit_table('api_keys', 'api_key', 'id', '{kind,name,user_id,organization_id,project_id,read_only}', '{secret_hash}');
select audit_table('projects', 'project', 'id',
  '{organization_id,name,region_id,pg_version,store_passwords,history_retention_seconds,default_endpoint_settings,settings}');
select audit_table('branches', 'branch', 'id',
  '{name,parent_id,parent_lsn,is_default,protected,init_source,annotations,expires_at,restored_from}');
select audit_table('endpoints', 'endpoint', 'id',
  '{name,branch_id,type,min_cu,max_cu,suspend_timeout_seconds,pg_settings,pooler_enabled,passwordless_access,disabled}');
-- Their servers tell of those made in SQL: nobody's intent towards us.
select audit_table('roles', 'role', 'name', '{name,can_login}', '{verifier}', true);
select audit_table('databases', 'database', 'name', '{name,owner_name}', '{}', true);
select audit_table('snapshots', 'snapshot', 'id', '{name,source_branch_id,manual,expires_at}');
select audit_table('backup_schedules', 'backup_schedule', 'id', '{frequency,hour,day,month,retention_seconds}');
select audit_table('project_jwks', 'jwks', 'id', '{jwks_url,provider_name,jwt_audience,role_names}');
select audit_table('webhook_deliveries', 'webhook_delivery', 'id', '{webhook_id,event_type}', '{}', true, '{update,delete}');
select audit_table('webhooks', 'webhook', 'id', '{organization_id,project_id,url,event_types}', '{secret_generation}');
select audit_table('invitations', 'invitation', 'id', '{organization_id,email,role,accepted_at}');
select audit_table('project_permissions', 'project_permission', 'id', '{email}');
-- Its id is what lets somebody take the project.
select audit_table('transfer_requests', 'transfer_request', 'project_id', '{expires_at}');
-- What was begun on behalf of somebody.
select audit_table('operations', 'operation', 'id', '{action,endpoint_id}', '{}', true, '{update,delete}');
