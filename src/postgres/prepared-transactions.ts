import { escapeLiteral } from 'pg';
import { withConnectionsAllowed } from './database-access.ts';
import type { OpenSession, Session } from './session.ts';

/** Rolls back the prepared transactions of one database, or of all; each can only be ended from inside its own. */
export async function rollBackPrepared(open: OpenSession, postgres: Session, database?: string): Promise<void> {
  const { rows } = await postgres.query<{ gid: string; database: string }>(
    'SELECT gid, database FROM pg_prepared_xacts WHERE $1::text IS NULL OR database = $1',
    [database ?? null],
  );
  for (const name of new Set(rows.map((row) => row.database))) {
    await withConnectionsAllowed(postgres, name, async () => {
      await using session = await open(name);
      for (const { gid } of rows.filter((row) => row.database === name)) {
        await session.query(`ROLLBACK PREPARED ${escapeLiteral(gid)}`);
      }
    });
  }
}
