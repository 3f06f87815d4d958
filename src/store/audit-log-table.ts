/** Kysely's view of the audit log. Rows are only read: triggers write them. */
export interface AuditLogTable {
  id: number;
  at: Date;
  organization_id: string | null;
  project_id: string | null;
  request_id: string | null;
  actor_kind: 'personal_key' | 'organization_key' | 'project_key' | 'session' | 'command_line' | 'platform';
  user_id: string | null;
  user_email: string | null;
  key_id: number | null;
  address: string | null;
  user_agent: string | null;
  action: string;
  target: Readonly<Record<string, unknown>>;
  changes: readonly AuditedChange[];
  changes_cut: boolean;
}

/** One thing that became different. Of what was changed only the columns that differ; secrets have no values. */
export interface AuditedChange {
  readonly noun: string;
  readonly id: string;
  readonly change: 'create' | 'update' | 'delete';
  readonly organization_id?: string;
  readonly project_id?: string;
  readonly branch_id?: string;
  readonly before?: Readonly<Record<string, unknown>>;
  readonly after?: Readonly<Record<string, unknown>>;
}
