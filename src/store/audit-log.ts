import { sql } from 'kysely';
import type { OrganizationId } from '../domain/ids.ts';
import type { AuditLogTable } from './audit-log-table.ts';
import type { Store } from './connection.ts';

/** Who changed what. Rows are written by `attributed` stores and by triggers alone. */

export interface AuditLogFilter {
  readonly project_id?: string;
  /** An id or e-mail address of a user, the id of a key, or a kind of actor. */
  readonly actor?: string;
  readonly action?: string;
  /** From then on, */
  readonly from?: Date;
  /** and before then. */
  readonly to?: Date;
  /** Older than this entry. */
  readonly before_id?: number;
  readonly limit: number;
}

/** The entries of an organisation, newest first. */
export function listAuditLog(
  store: Store,
  organization_id: OrganizationId,
  { project_id, actor, action, from, to, before_id, limit }: AuditLogFilter,
): Promise<AuditLogTable[]> {
  return store
    .selectFrom('audit_log')
    .selectAll()
    .where('organization_id', '=', organization_id)
    .$if(project_id !== undefined, (query) => query.where('project_id', '=', project_id!))
    .$if(actor !== undefined, (query) =>
      query.where(sql<boolean>`${actor} in (
      user_id::text, lower(user_email), key_id::text, actor_kind)`),
    )
    .$if(action !== undefined, (query) => query.where('action', '=', action!))
    .$if(from !== undefined, (query) => query.where('at', '>=', from!))
    .$if(to !== undefined, (query) => query.where('at', '<', to!))
    .$if(before_id !== undefined, (query) => query.where('id', '<', before_id!))
    .orderBy('id', 'desc')
    .limit(limit)
    .execute();
}

/** Forgets entries from before that time, so many at most. Nothing else takes any away. Returns how many went. */
export async function forgetAuditLog(store: Store, before: Date, most: number): Promise<number> {
  const { rows } = await sql<{
    forgotten: number;
  }>`select audit_forget(${before}, ${most}::integer) as forgotten`.execute(store);
  return rows[0]!.forgotten;
}
