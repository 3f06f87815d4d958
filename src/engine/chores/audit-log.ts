import { forgetAuditLog } from '../../store/audit-log.ts';
import type { EngineContext } from '../context.ts';

/** In one transaction, which nobody waits for. */
const ENTRIES_AT_ONCE = 10_000;

/** Removes entries of the audit log that are older than they are kept. Tells whether there may be more. */
export async function forgetOldEntries(
  { store, audit_log_retention_ms }: Pick<EngineContext, 'store' | 'audit_log_retention_ms'>,
  now: Date,
): Promise<boolean> {
  if (audit_log_retention_ms === undefined) return false;
  const before = new Date(now.getTime() - audit_log_retention_ms);
  return (await forgetAuditLog(store, before, ENTRIES_AT_ONCE)) === ENTRIES_AT_ONCE;
}
