-- A branch that is filled with masked data: how, and how far that is. While its timeline has no volume it is nobody's to use.
create table branch_maskings (
  branch_id text primary key references branches,
  project_id text not null references projects,
  rules jsonb not null default '[]',
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  -- observed: the copy that is masked stands
  copied_at timestamptz,
  -- The last masking that was asked for, and what came of it.
  asked_at timestamptz,
  asked_by uuid references users,
  completed_at timestamptz,
  failed_at timestamptz,
  error text,
  masked_columns integer,
  -- As the API names them.
  state text not null generated always as (
    case
      when completed_at is not null then 'anonymized'
      when failed_at is not null and copied_at is null then 'initialization_error'
      when failed_at is not null then 'error'
      when copied_at is null then 'created'
      when asked_at is not null then 'anonymizing'
      else 'initialized'
    end
  ) stored
);
create index branch_maskings_project_id_idx on branch_maskings (project_id);

select audit_table('branch_maskings', 'masking', 'branch_id', '{rules}');

-- What is told of the branch.
create function record_masking_state() returns trigger language plpgsql as $$
begin
  insert into coppice.events (type, organization_id, project_id, subject_id, data)
  select 'branch.updated', projects.organization_id, branches.project_id, branches.id,
    jsonb_build_object('name', branches.name, 'anonymized_state', new.state)
  from coppice.branches join coppice.projects on projects.id = branches.project_id
  where branches.id = new.branch_id and branches.deleted_at is null;
  return null;
end $$;
create trigger event_state after update on branch_maskings for each row when (old.state <> new.state)
  execute function record_masking_state();
