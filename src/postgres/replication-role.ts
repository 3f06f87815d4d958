import { escapeIdentifier, escapeLiteral } from 'pg';
import { createVerifier, formatVerifier, parseVerifier } from '../domain/scram-verifier.ts';
import { REPLICATION_ROLE } from './access.ts';
import type { Session } from './session.ts';

/**
 * The server lets read replicas in with this password: a role that can stream and nothing else. Only its verifier is
 * sent, and only where the server has another one. Safe to run twice.
 */
export async function ensureReplicationRole(session: Session, password: string): Promise<void> {
  const { rows } = await session.query('SELECT rolpassword FROM pg_authid WHERE rolname = $1', [REPLICATION_ROLE]);
  const known = rows[0]?.rolpassword ? parseVerifier(rows[0].rolpassword) : undefined;
  if (known) {
    const { salt, iterations } = known;
    const expected = await createVerifier(password, { salt, iterations });
    if (expected.storedKey.equals(known.storedKey)) return;
  }
  const verifier = formatVerifier(await createVerifier(password));
  const verb = rows.length === 0 ? 'CREATE' : 'ALTER';
  await session.query(
    `${verb} ROLE ${escapeIdentifier(REPLICATION_ROLE)} LOGIN REPLICATION NOSUPERUSER NOCREATEDB NOCREATEROLE NOBYPASSRLS
       NOINHERIT CONNECTION LIMIT -1 PASSWORD ${escapeLiteral(verifier)}`,
  );
}
