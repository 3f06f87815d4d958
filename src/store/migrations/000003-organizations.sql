-- Who may do what: keys that organisations own, who is invited to them, and projects that others may use or are to get.

create index api_keys_organization_id_idx on api_keys (organization_id) where revoked_at is null;
create index api_keys_project_id_idx on api_keys (project_id) where revoked_at is null;

-- Addresses are in lower case wherever somebody is meant by them who may have no account yet.
create table invitations (
  id uuid primary key default gen_random_uuid(),
  organization_id text not null references organizations,
  email text not null check (email = lower(email)),
  role text not null check (role in ('admin', 'member')),
  invited_by uuid not null references users,
  invited_at timestamptz not null default now(),
  -- Since when somebody of that address is a member because of it.
  accepted_at timestamptz
);
create unique index invitations_organization_id_email_key on invitations (organization_id, email) where accepted_at is null;
create index invitations_email_idx on invitations (email) where accepted_at is null;

-- People outside of its organisation who may use a project.
create table project_permissions (
  id uuid primary key default gen_random_uuid(),
  project_id text not null references projects,
  email text not null check (email = lower(email)),
  granted_by uuid references users,
  granted_at timestamptz not null default now(),
  revoked_at timestamptz
);
create unique index project_permissions_email_project_id_key on project_permissions (email, project_id) where revoked_at is null;
create index project_permissions_project_id_idx on project_permissions (project_id) where revoked_at is null;

-- Who knows the id of one may take the project, once, before it expires.
create table transfer_requests (
  id uuid primary key default gen_random_uuid(),
  project_id text not null references projects,
  created_by uuid references users,
  created_at timestamptz not null default now(),
  expires_at timestamptz not null
);
create index transfer_requests_project_id_idx on transfer_requests (project_id);
