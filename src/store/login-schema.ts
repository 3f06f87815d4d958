import type { Generated } from 'kysely';
import type { OptionalTime, Time } from './column-types.ts';

/** The tables of schema `coppice_auth`, as schema.ts has the others: how people log in. */

interface SessionsTable {
  id: Generated<string>;
  user_id: string;
  token: string;
  expires_at: Time;
  created_at: Time;
  updated_at: Time;
  ip_address: string | null;
  user_agent: string | null;
}

interface AccountsTable {
  id: Generated<string>;
  user_id: string;
  provider_id: string;
  account_id: string;
  password: string | null;
  access_token: string | null;
  refresh_token: string | null;
  id_token: string | null;
  access_token_expires_at: OptionalTime;
  refresh_token_expires_at: OptionalTime;
  scope: string | null;
  created_at: Time;
  updated_at: Time;
}

interface VerificationsTable {
  id: Generated<string>;
  identifier: string;
  value: string;
  expires_at: Time;
  created_at: Time;
  updated_at: Time;
}

interface TwoFactorsTable {
  id: Generated<string>;
  user_id: string;
  secret: string;
  backup_codes: string;
  verified: Generated<boolean>;
  failed_verification_count: Generated<number>;
  locked_until: OptionalTime;
}

interface UsedCodesTable {
  user_id: string;
  code_hash: Buffer;
  expires_at: Time;
}

interface LinksTable {
  token_hash: Buffer;
  user_id: string | null;
  invitation_id: string | null;
  mailed: Generated<boolean>;
  created_at: Time;
  expires_at: Time;
}

export interface LoginSchema {
  'coppice_auth.sessions': SessionsTable;
  'coppice_auth.accounts': AccountsTable;
  'coppice_auth.verifications': VerificationsTable;
  'coppice_auth.two_factors': TwoFactorsTable;
  'coppice_auth.used_codes': UsedCodesTable;
  'coppice_auth.links': LinksTable;
}
