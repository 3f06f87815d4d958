import type { AuditLogTable } from '../../store/audit-log-table.ts';
import type { AuditEntry } from '../schemas/audit-log.ts';

/** An entry of the audit log. Its time has milliseconds, since many may be of one second. */
export function serializeAuditEntry(row: AuditLogTable): AuditEntry {
  return {
    id: row.id,
    at: row.at.toISOString(),
    action: row.action,
    actor: {
      kind: row.actor_kind,
      user_id: row.user_id ?? undefined,
      email: row.user_email ?? undefined,
      key_id: row.key_id ?? undefined,
    },
    address: row.address ?? undefined,
    user_agent: row.user_agent ?? undefined,
    request_id: row.request_id ?? undefined,
    project_id: row.project_id ?? undefined,
    target: row.target,
    changes: [...row.changes],
    changes_cut: row.changes_cut,
  };
}
