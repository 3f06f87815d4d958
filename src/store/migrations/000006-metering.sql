-- What branches use, added up hour by hour in UTC. Nothing refers to what it is of, which may be gone.

-- Endpoints whose server runs: the time until `metered_until` has been added.
create table compute_runs (
  endpoint_id text primary key,
  branch_id text not null,
  project_id text not null,
  cu double precision not null,
  metered_until timestamptz not null
);

create table usage_hours (
  branch_id text not null,
  hour timestamptz not null,
  project_id text not null,
  active_us bigint not null default 0,
  -- Active time times the size in CU.
  compute_us bigint not null default 0,
  written_bytes bigint not null default 0,
  received_bytes bigint not null default 0,
  sent_bytes bigint not null default 0,
  -- Of those that were sent: to clients in private networks.
  private_bytes bigint not null default 0,
  primary key (branch_id, hour)
);
create index usage_hours_project_id_idx on usage_hours (project_id, hour);
create index usage_hours_hour_idx on usage_hours (hour);

-- What is stored changes rarely: a row is an hour in which it did. Hours without one are as the last one ended.
create table storage_hours (
  branch_id text not null,
  kind text not null check (kind in ('logical', 'root', 'child', 'history', 'snapshot')),
  hour timestamptz not null,
  project_id text not null,
  -- Of the whole hour, its rest being as it is now.
  byte_seconds numeric not null,
  bytes_end bigint not null,
  primary key (branch_id, kind, hour)
);
create index storage_hours_project_id_idx on storage_hours (project_id, hour);
create index storage_hours_hour_idx on storage_hours (hour);

-- The same of the calendar month that was last used in, where readers find it with the thing itself.
create table branch_usage (
  branch_id text primary key,
  period_start timestamptz not null,
  active_us bigint not null default 0,
  compute_us bigint not null default 0,
  written_bytes bigint not null default 0,
  received_bytes bigint not null default 0,
  sent_bytes bigint not null default 0
);
create table project_usage (
  project_id text primary key,
  period_start timestamptz not null,
  active_us bigint not null default 0,
  compute_us bigint not null default 0,
  written_bytes bigint not null default 0,
  received_bytes bigint not null default 0,
  sent_bytes bigint not null default 0,
  -- Data and history of all branches now, and what it comes to until `storage_at`.
  storage_bytes bigint not null default 0,
  storage_byte_seconds numeric not null default 0,
  storage_at timestamptz not null
);

-- Processes of gateways: what they told last has been added, so that it is added once when they tell it again.
create table transfer_sources (
  id uuid primary key,
  last_batch bigint not null,
  told_at timestamptz not null default now()
);

alter table timelines
  -- What was written until there has been added.
  add column metered_lsn text,
  add column archive_bytes bigint;

-- Locks the project's totals, which are of that month from then on or of a later one. Whoever adds begins with this, and locks
-- nothing but what is metered afterwards.
create function open_usage(project text, moment timestamptz) returns void language sql as $$
  insert into coppice.project_usage (project_id, period_start, storage_at)
  values (project, date_trunc('month', moment, 'UTC'), moment)
  on conflict (project_id) do update set period_start = excluded.period_start, active_us = 0, compute_us = 0,
    written_bytes = 0, received_bytes = 0, sent_bytes = 0, storage_byte_seconds = 0,
    storage_at = greatest(project_usage.storage_at, excluded.period_start)
  where project_usage.period_start < excluded.period_start
$$;

create function add_usage(
  branch text, project text, moment timestamptz, active bigint default 0, compute bigint default 0, written bigint default 0,
  received bigint default 0, sent bigint default 0, private bigint default 0
) returns void language plpgsql as $$
declare
  month timestamptz := date_trunc('month', moment, 'UTC');
begin
  perform coppice.open_usage(project, moment);
  -- What comes late of a month that is over is in its hours alone.
  update coppice.project_usage set active_us = active_us + active, compute_us = compute_us + compute,
    written_bytes = written_bytes + written, received_bytes = received_bytes + received, sent_bytes = sent_bytes + sent
  where project_id = project and period_start = month;
  insert into coppice.branch_usage as known (branch_id, period_start, active_us, compute_us, written_bytes, received_bytes, sent_bytes)
  values (branch, month, active, compute, written, received, sent)
  on conflict (branch_id) do update set period_start = month,
    active_us = case when known.period_start = month then known.active_us else 0 end + active,
    compute_us = case when known.period_start = month then known.compute_us else 0 end + compute,
    written_bytes = case when known.period_start = month then known.written_bytes else 0 end + written,
    received_bytes = case when known.period_start = month then known.received_bytes else 0 end + received,
    sent_bytes = case when known.period_start = month then known.sent_bytes else 0 end + sent
  where known.period_start <= month;
  insert into coppice.usage_hours as known (branch_id, hour, project_id, active_us, compute_us, written_bytes, received_bytes,
    sent_bytes, private_bytes)
  values (branch, date_trunc('hour', moment, 'UTC'), project, active, compute, written, received, sent, private)
  on conflict (branch_id, hour) do update set active_us = known.active_us + active, compute_us = known.compute_us + compute,
    written_bytes = known.written_bytes + written, received_bytes = known.received_bytes + received,
    sent_bytes = known.sent_bytes + sent, private_bytes = known.private_bytes + private;
end $$;

-- Adds the time of a run since it was last added, hour by hour. A gap longer than `most` is not known to have been run
-- through, and is left out; so is a clock that was set back.
create function meter_run(endpoint text, most interval, until timestamptz default null) returns void language plpgsql as $$
declare
  run coppice.compute_runs;
  piece timestamptz;
  edge timestamptz;
  us bigint;
begin
  select * into run from coppice.compute_runs where endpoint_id = endpoint for update;
  if not found then return; end if;
  -- Not before: another may have added until a moment ago.
  until := coalesce(until, clock_timestamp());
  if until <= run.metered_until then return; end if;
  update coppice.compute_runs set metered_until = until where endpoint_id = endpoint;
  if until - run.metered_until > most then return; end if;
  piece := run.metered_until;
  while piece < until loop
    edge := least(until, date_trunc('hour', piece, 'UTC') + interval '1 hour');
    us := round(extract(epoch from edge - piece) * 1000000);
    perform coppice.add_usage(run.branch_id, run.project_id, piece, active => us, compute => round(us * run.cu)::bigint);
    piece := edge;
  end loop;
end $$;

-- Passing copies for clients who look into the past are used for the branch whose past it is.
create function metered_branch(branch text) returns text language sql stable as $$
  select coalesce(ephemeral_of, id) from coppice.branches where id = branch
$$;

-- A run begins and ends with what is observed of its endpoint, whoever observes it. At the end of the transaction, as all of
-- these triggers: totals are what is locked last, so that nobody waits for each other in a ring.
create function meter_endpoint() returns trigger language plpgsql as $$
begin
  perform coppice.meter_run(new.id, interval '1 minute');
  if new.observed_state in ('running', 'stopping') and new.current_cu is not null then
    insert into coppice.compute_runs (endpoint_id, branch_id, project_id, cu, metered_until)
    values (new.id, coppice.metered_branch(new.branch_id), new.project_id, new.current_cu, clock_timestamp())
    on conflict (endpoint_id) do update set branch_id = excluded.branch_id, cu = excluded.cu;
  else
    delete from coppice.compute_runs where endpoint_id = new.id;
  end if;
  return null;
end $$;
create constraint trigger meter after update on endpoints deferrable initially deferred for each row
  when ((old.observed_state in ('running', 'stopping'), old.current_cu, old.branch_id)
    is distinct from (new.observed_state in ('running', 'stopping'), new.current_cu, new.branch_id))
  execute function meter_endpoint();

-- Adds what the server of an endpoint has written since it was last added.
create function meter_written(endpoint text, lsn_now pg_lsn) returns void language plpgsql as $$
declare
  served record;
  since pg_lsn;
begin
  select timelines.id, timelines.metered_lsn, timelines.birth_lsn, endpoints.branch_id, endpoints.project_id into served
  from coppice.endpoints join coppice.timelines on timelines.id = endpoints.serves_timeline_id
  where endpoints.id = endpoint and endpoints.type = 'read_write' for no key update of timelines;
  if not found then return; end if;
  since := coalesce(served.metered_lsn, served.birth_lsn, lsn_now::text)::pg_lsn;
  if lsn_now <= since and served.metered_lsn is not null then return; end if;
  update coppice.timelines set metered_lsn = greatest(since, lsn_now)::text where id = served.id;
  if lsn_now <= since then return; end if;
  perform coppice.add_usage(coppice.metered_branch(served.branch_id), served.project_id, clock_timestamp(),
    written => (lsn_now - since)::bigint);
end $$;

-- Adds what a gateway passed on for endpoints; nothing when it is told a second time.
create function meter_transfers(source uuid, batch bigint, told jsonb) returns void language plpgsql as $$
declare
  used record;
begin
  insert into coppice.transfer_sources as known (id, last_batch) values (source, batch)
  on conflict (id) do update set last_batch = batch, told_at = now() where known.last_batch < batch;
  if not found then return; end if;
  -- Project by project in one order, so that nobody waits for each other in a ring.
  for used in
    select endpoints.project_id, coppice.metered_branch(endpoints.branch_id) as branch_id,
      sum(received_bytes)::bigint as received, sum(sent_bytes)::bigint as sent, sum(private_bytes)::bigint as private
    from jsonb_to_recordset(told) as bytes (endpoint_id text, received_bytes bigint, sent_bytes bigint, private_bytes bigint)
    join coppice.endpoints on endpoints.id = bytes.endpoint_id
    group by 1, 2 order by 1, 2
  loop
    perform coppice.add_usage(used.branch_id, used.project_id, clock_timestamp(), received => used.received, sent => used.sent,
      private => used.private);
  end loop;
end $$;

-- Says how much of a kind a branch holds from then on.
create function set_storage(branch text, project text, what text, bytes bigint, moment timestamptz) returns void language plpgsql as $$
declare
  last record;
  this_hour timestamptz;
  rest numeric;
  since timestamptz;
begin
  perform coppice.open_usage(project, moment);
  select hour, bytes_end into last from coppice.storage_hours
  where branch_id = branch and kind = what order by hour desc limit 1;
  if coalesce(last.bytes_end, 0) = bytes then return; end if;
  -- A clock that was set back changes no hour that is over.
  since := greatest(moment, last.hour);
  this_hour := date_trunc('hour', since, 'UTC');
  rest := extract(epoch from this_hour + interval '1 hour' - since);
  insert into coppice.storage_hours as known (branch_id, kind, hour, project_id, byte_seconds, bytes_end)
  values (branch, what, this_hour, project,
    coalesce(last.bytes_end, 0) * 3600.0 + (bytes - coalesce(last.bytes_end, 0)) * rest, bytes)
  on conflict (branch_id, kind, hour) do update set
    byte_seconds = known.byte_seconds + (bytes - known.bytes_end) * rest, bytes_end = bytes;
  if what in ('root', 'child', 'history') then
    update coppice.project_usage set
      storage_byte_seconds = storage_byte_seconds + storage_bytes * greatest(0, extract(epoch from moment - storage_at)),
      storage_at = greatest(storage_at, moment),
      storage_bytes = storage_bytes + bytes - coalesce(last.bytes_end, 0)
    where project_id = project;
  end if;
end $$;

-- Says how much a branch holds now, as far as it was measured: a root branch its data, another one what it does not share; its
-- log and its frozen states beside that; and the snapshots that were made of it, which may outlive it.
create function meter_storage(branch text, moment timestamptz default null) returns void language plpgsql as $$
declare
  facts record;
  own bigint;
begin
  select branches.project_id, branches.parent_id, branches.deleted_at is null as is_there, timelines.id as timeline_id,
    coalesce(timelines.logical_size_bytes, 0) as logical_bytes, timelines.unshared_size_bytes,
    coalesce(timelines.archive_bytes, 0) as archive_bytes
  into facts from coppice.branches join coppice.timelines on timelines.id = branches.timeline_id
  where branches.id = branch and branches.ephemeral_of is null;
  if not found then return; end if;
  moment := coalesce(moment, clock_timestamp());
  own := least(facts.logical_bytes, coalesce(facts.unshared_size_bytes, facts.logical_bytes));
  perform coppice.set_storage(branch, facts.project_id, kind, case when facts.is_there or kind = 'snapshot' then bytes else 0 end, moment)
  from (values
    ('logical', facts.logical_bytes),
    ('root', case when facts.parent_id is null then facts.logical_bytes else 0 end),
    ('child', case when facts.parent_id is null then 0 else own end),
    ('history', facts.archive_bytes + (
      select coalesce(sum(unshared_size_bytes), 0)::bigint from coppice.timeline_snapshots
      where timeline_id = facts.timeline_id and deleted_at is null
    )),
    ('snapshot', (
      select coalesce(sum(coalesce(timelines.unshared_size_bytes, timelines.logical_size_bytes)), 0)::bigint
      from coppice.snapshots join coppice.timelines on timelines.id = snapshots.timeline_id
      where snapshots.source_branch_id = branch and snapshots.deleted_at is null
    ))
  ) as kinds (kind, bytes);
end $$;

create function meter_storage_change() returns trigger language plpgsql as $$
begin
  case tg_table_name
    when 'branches' then perform coppice.meter_storage(new.id);
    when 'snapshots' then perform coppice.meter_storage(new.source_branch_id);
    when 'timelines' then
      perform coppice.meter_storage(id) from (
        select id from coppice.branches where timeline_id = new.id and deleted_at is null
        union select source_branch_id from coppice.snapshots where timeline_id = new.id and deleted_at is null
      ) as concerned (id);
    when 'timeline_snapshots' then
      perform coppice.meter_storage(id) from coppice.branches where timeline_id = new.timeline_id and deleted_at is null;
  end case;
  return null;
end $$;
create constraint trigger meter after update on branches deferrable initially deferred for each row
  when ((old.timeline_id, old.parent_id, old.deleted_at) is distinct from (new.timeline_id, new.parent_id, new.deleted_at))
  execute function meter_storage_change();
create constraint trigger meter after update on snapshots deferrable initially deferred for each row
  when (old.deleted_at is distinct from new.deleted_at) execute function meter_storage_change();
create constraint trigger meter after update on timelines deferrable initially deferred for each row
  when ((old.logical_size_bytes, old.unshared_size_bytes, old.archive_bytes)
    is distinct from (new.logical_size_bytes, new.unshared_size_bytes, new.archive_bytes))
  execute function meter_storage_change();
create constraint trigger meter after update on timeline_snapshots deferrable initially deferred for each row
  when ((old.unshared_size_bytes, old.deleted_at) is distinct from (new.unshared_size_bytes, new.deleted_at))
  execute function meter_storage_change();

-- Forgets hours from before that time, of each table so many at most; tells how many. What was stored last stays known.
create function forget_usage(before timestamptz, most integer) returns bigint language plpgsql as $$
declare
  forgotten bigint;
  more bigint;
begin
  with old_rows as (select branch_id, hour from coppice.usage_hours where hour < before order by hour limit most)
  delete from coppice.usage_hours using old_rows
  where usage_hours.branch_id = old_rows.branch_id and usage_hours.hour = old_rows.hour;
  get diagnostics forgotten = row_count;
  with old_rows as (
    select branch_id, kind, hour from coppice.storage_hours as known where hour < before and (exists (
      select from coppice.storage_hours as later
      where later.branch_id = known.branch_id and later.kind = known.kind and later.hour > known.hour and later.hour <= before
    ) or bytes_end = 0 and not exists (
      select from coppice.storage_hours as earlier
      where earlier.branch_id = known.branch_id and earlier.kind = known.kind and earlier.hour < known.hour
    ))
    order by hour limit most
  )
  delete from coppice.storage_hours using old_rows where storage_hours.branch_id = old_rows.branch_id
    and storage_hours.kind = old_rows.kind and storage_hours.hour = old_rows.hour;
  get diagnostics more = row_count;
  delete from coppice.transfer_sources where told_at < now() - interval '7 days';
  return greatest(forgotten, more);
end $$;

-- What is there already is metered from now on.
insert into compute_runs (endpoint_id, branch_id, project_id, cu, metered_until)
select id, metered_branch(branch_id), project_id, current_cu, clock_timestamp() from endpoints
where observed_state in ('running', 'stopping') and current_cu is not null;
select meter_storage(id) from branches where deleted_at is null and ephemeral_of is null;
