import { escapeIdentifier } from 'pg';
import { withConnectionsAllowed } from './database-access.ts';
import type { OpenSession, Session } from './session.ts';

/**
 * Ends subscriptions here without a word to their publishers: disabled and without a slot, or dropped as well. A child
 * would otherwise take over its parent's slot.
 */
export async function detachSubscriptions(
  open: OpenSession,
  postgres: Session,
  { database, drop = false }: { database?: string; drop?: boolean } = {},
): Promise<void> {
  const { rows } = await postgres.query<{ database: string; subname: string }>(
    `SELECT d.datname AS database, subname FROM pg_subscription s JOIN pg_database d ON d.oid = s.subdbid
      WHERE ($1::text IS NULL OR d.datname = $1)`,
    [database ?? null],
  );
  for (const name of new Set(rows.map((row) => row.database))) {
    await withConnectionsAllowed(postgres, name, async () => {
      await using session = await open(name);
      for (const row of rows.filter((candidate) => candidate.database === name)) {
        const subscription = escapeIdentifier(row.subname);
        await session.query(`ALTER SUBSCRIPTION ${subscription} DISABLE`);
        await session.query(`ALTER SUBSCRIPTION ${subscription} SET (slot_name = NONE)`);
        if (drop) await session.query(`DROP SUBSCRIPTION ${subscription}`);
      }
    });
  }
}
