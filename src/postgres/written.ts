import type { Lsn } from '../domain/lsn.ts';
import type { Session } from './session.ts';

/** Up to where the server's log is on disk; undefined of a replica, which writes none of its own. */
export async function readWritten(session: Session): Promise<Lsn | undefined> {
  const { rows } = await session.query<{ lsn: Lsn | null }>(
    `SELECT CASE WHEN pg_catalog.pg_is_in_recovery() THEN NULL ELSE pg_catalog.pg_current_wal_flush_lsn() END::text AS lsn`,
  );
  return rows[0]?.lsn ?? undefined;
}
