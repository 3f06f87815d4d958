-- How a branch was deleted that can come back for a while; null where there is nothing to come back, or no more.
alter table branches add column deletion_method text,
  add constraint branches_deletion_method_check
    check (deletion_method in ('user', 'ttl') and deleted_at is not null or deletion_method is null);
create index branches_kept_idx on branches (deleted_at) where deletion_method is not null;

-- A deleted branch that comes back comes back to the parent that the other children have by then.
drop index branches_parent_id_idx;
create index branches_parent_id_idx on branches (parent_id) where deleted_at is null or deletion_method is not null;

-- Pages of lists come out of an index in their order, whichever way it is walked; what a search looks at is in the index, too.
drop index projects_organization_id_created_at_idx;
create index projects_organization_id_created_at_idx on projects (organization_id, created_at, id) include (name)
  where deleted_at is null;

create index branches_project_id_updated_at_idx on branches (project_id, updated_at, id) include (name, deleted_at)
  where (deleted_at is null or deletion_method is not null) and ephemeral_of is null;
create index branches_project_id_created_at_idx on branches (project_id, created_at, id) include (name, deleted_at)
  where (deleted_at is null or deletion_method is not null) and ephemeral_of is null;
-- Names go by code point.
create index branches_project_id_name_idx on branches (project_id, name collate "C", id) include (deleted_at)
  where (deleted_at is null or deletion_method is not null) and ephemeral_of is null;
