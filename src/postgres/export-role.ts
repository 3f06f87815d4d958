import { EXPORT_ROLE } from './access.ts';
import type { Session } from './session.ts';

/**
 * Sees to the superuser as which operators of other systems work on their servers, so that a copy of this one has it. It has
 * no password, so that nobody enters a server of ours as it.
 *
 * @returns false where a customer has a role of that name, which is left as it is
 */
export async function ensureExportRole(postgres: Session): Promise<boolean> {
  await postgres
    .query(`CREATE ROLE ${EXPORT_ROLE} SUPERUSER LOGIN CREATEDB CREATEROLE REPLICATION BYPASSRLS`)
    .catch((error) => {
      if (error.code !== '42710' && error.code !== '23505') throw error;
    });
  const { rows } = await postgres.query('SELECT rolsuper FROM pg_authid WHERE rolname = $1', [EXPORT_ROLE]);
  return rows[0]?.rolsuper === true;
}
