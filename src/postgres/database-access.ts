import { escapeIdentifier } from 'pg';
import type { Session } from './session.ts';

/**
 * Runs `work` while a database lets us in, and gives it back its owner's choice. A kill in between leaves it open, never
 * closed: a database that its owner cannot enter would be the greater harm.
 */
export async function withConnectionsAllowed(
  postgres: Session,
  name: string,
  work: () => Promise<void>,
): Promise<void> {
  const { rows } = await postgres.query('SELECT datallowconn FROM pg_database WHERE datname = $1', [name]);
  if (rows.length === 0) return;
  if (rows[0].datallowconn) return work();
  const database = escapeIdentifier(name);
  await postgres.query(`ALTER DATABASE ${database} ALLOW_CONNECTIONS true`);
  try {
    await work();
  } finally {
    await postgres.query(`ALTER DATABASE ${database} ALLOW_CONNECTIONS false`);
  }
}
