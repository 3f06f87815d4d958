-- How people log in. Who they are is in `users`; what they show for it is in a schema of its own, which the library that
-- reads and writes most of it has to itself.

alter table users
  -- Somebody who can be trusted with it said that the address is this person's: whoever runs the machine, a mail that was
  -- answered, or the issuer of single sign-on.
  add column email_verified boolean not null default false,
  add column two_factor_enabled boolean not null default false;
-- Until now people were made on the machine alone.
update users set email_verified = true;

create schema coppice_auth;

-- The same people, as that library sees them. It makes none and renames none.
create view coppice_auth.users as
  select id, lower(email) as email, name, email_verified, null::text as image, two_factor_enabled, created_at, updated_at
  from coppice.users;

-- A session's token is in a cookie, signed with a key that is not in here: what is here opens nothing by itself.
create table coppice_auth.sessions (
  id uuid primary key default gen_random_uuid(),
  user_id uuid not null references coppice.users on delete cascade,
  token text not null unique,
  expires_at timestamptz not null,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  ip_address text,
  user_agent text
);
create index sessions_user_id_idx on coppice_auth.sessions (user_id);
create index sessions_expires_at_idx on coppice_auth.sessions (expires_at);

-- Ways to be a person: `credential` is a password, anything else an issuer of single sign-on. The tokens of issuers are not kept.
create table coppice_auth.accounts (
  id uuid primary key default gen_random_uuid(),
  user_id uuid not null references coppice.users on delete cascade,
  provider_id text not null,
  account_id text not null,
  password text,
  access_token text,
  refresh_token text,
  id_token text,
  access_token_expires_at timestamptz,
  refresh_token_expires_at timestamptz,
  scope text,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  unique (provider_id, account_id)
);
create index accounts_user_id_idx on coppice_auth.accounts (user_id);

-- Logins that are under way.
create table coppice_auth.verifications (
  id uuid primary key default gen_random_uuid(),
  identifier text not null,
  value text not null,
  expires_at timestamptz not null,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now()
);
create index verifications_identifier_idx on coppice_auth.verifications (identifier);
create index verifications_expires_at_idx on coppice_auth.verifications (expires_at);

-- Secrets of TOTP and backup codes, both encrypted under the master key.
create table coppice_auth.two_factors (
  id uuid primary key default gen_random_uuid(),
  user_id uuid not null unique references coppice.users on delete cascade,
  secret text not null,
  backup_codes text not null,
  verified boolean not null default true,
  failed_verification_count integer not null default 0,
  locked_until timestamptz
);

-- Codes of TOTP that somebody has shown: each is taken once.
create table coppice_auth.used_codes (
  user_id uuid not null references coppice.users on delete cascade,
  code_hash bytea not null,
  expires_at timestamptz not null,
  primary key (user_id, code_hash)
);
create index used_codes_expires_at_idx on coppice_auth.used_codes (expires_at);

-- One-time links: to set a password, or to accept an invitation. Only a hash of what is in the link is here.
create table coppice_auth.links (
  token_hash bytea primary key,
  user_id uuid references coppice.users on delete cascade,
  invitation_id uuid references coppice.invitations on delete cascade,
  -- The link went to the address itself, and nobody else was shown it.
  mailed boolean not null default false,
  created_at timestamptz not null default now(),
  expires_at timestamptz not null,
  check (num_nonnulls(user_id, invitation_id) = 1)
);
create index links_user_id_idx on coppice_auth.links (user_id);
create index links_invitation_id_idx on coppice_auth.links (invitation_id);
create index links_expires_at_idx on coppice_auth.links (expires_at);

-- A person who logged in is somebody else to the audit log than a key of that person.
alter table audit_log drop constraint audit_log_actor_kind_check;
alter table audit_log add check
  (actor_kind in ('personal_key', 'organization_key', 'project_key', 'session', 'command_line', 'platform'));

-- What opens an account. Only what somebody asked for: the library counts and renews by itself.
do $$
declare
  noted text := $w$current_setting('coppice.audit', true) not in ('', 'off')$w$;
begin
  execute format('create trigger audit_insert after insert on coppice_auth.accounts for each row when (%s)
    execute function audit_change(%L, %L, %L, %L)', noted, 'login', 'user_id', '{user_id,provider_id}', '{}');
  execute format('create trigger audit_update after update on coppice_auth.accounts for each row
    when (%s and old.password is distinct from new.password) execute function audit_change(%L, %L, %L, %L)',
    noted, 'login', 'user_id', '{user_id,provider_id}', '{password}');
  execute format('create trigger audit_delete after delete on coppice_auth.accounts for each row when (%s)
    execute function audit_change(%L, %L, %L, %L)', noted, 'login', 'user_id', '{user_id,provider_id}', '{}');
  execute format('create trigger audit_insert after insert on coppice_auth.two_factors for each row when (%s)
    execute function audit_change(%L, %L, %L, %L)', noted, 'two_factor', 'user_id', '{user_id,verified}', '{}');
  execute format('create trigger audit_update after update on coppice_auth.two_factors for each row
    when (%s and (old.secret, old.backup_codes, old.verified) is distinct from (new.secret, new.backup_codes, new.verified))
    execute function audit_change(%L, %L, %L, %L)', noted, 'two_factor', 'user_id', '{user_id,verified}', '{secret,backup_codes}');
  execute format('create trigger audit_delete after delete on coppice_auth.two_factors for each row when (%s)
    execute function audit_change(%L, %L, %L, %L)', noted, 'two_factor', 'user_id', '{user_id,verified}', '{}');
end $$;
