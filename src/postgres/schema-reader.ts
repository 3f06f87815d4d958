import { PLATFORM_ROLE, SCHEMA_READER } from './access.ts';
import { SchemaUnreadable } from './schema-dump.ts';
import type { Session } from './session.ts';

/**
 * Sees to the role that reads schemas: it may look at everything and do nothing, so that whatever a customer's schema
 * brings to run while it is read, runs without rights. Made when it is first needed, on any volume.
 *
 * @param postgres a session of the platform's in any database
 * @throws SchemaUnreadable where a role of that name is not the platform's
 */
export async function ensureSchemaReader(postgres: Session): Promise<void> {
  if (await hasSchemaReader(postgres)) return;
  await postgres
    .query(`CREATE ROLE ${SCHEMA_READER} LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS`)
    .catch((error) => {
      // Somebody was quicker.
      if (error.code !== '42710' && error.code !== '23505') throw error;
    });
  await postgres.query(`GRANT pg_read_all_data TO ${SCHEMA_READER}`);
  if (!(await hasSchemaReader(postgres))) throw new Error(`the role ${SCHEMA_READER} could not be made`);
}

/** A customer may have made a role of that name, of which it is a member, or which can do more than look. */
async function hasSchemaReader(postgres: Session): Promise<boolean> {
  const { rows } = await postgres.query<{ ours: boolean; complete: boolean }>(
    `SELECT NOT (r.rolsuper OR r.rolcreaterole OR r.rolcreatedb OR r.rolreplication OR r.rolbypassrls)
              AND r.rolcanlogin AND r.rolpassword IS NULL
              AND NOT EXISTS (SELECT FROM pg_auth_members m JOIN pg_authid a ON a.oid = m.member
                               WHERE m.roleid = r.oid AND a.rolname <> $2)
              AND NOT EXISTS (SELECT FROM pg_auth_members m JOIN pg_authid g ON g.oid = m.roleid
                               WHERE m.member = r.oid AND g.rolname <> 'pg_read_all_data') AS ours,
            EXISTS (SELECT FROM pg_auth_members m JOIN pg_authid g ON g.oid = m.roleid
                     WHERE m.member = r.oid AND g.rolname = 'pg_read_all_data') AS complete
       FROM pg_authid r WHERE r.rolname = $1`,
    [SCHEMA_READER, PLATFORM_ROLE],
  );
  if (rows.length === 0) return false;
  if (!rows[0]!.ours) {
    throw new SchemaUnreadable(
      `a role named ${SCHEMA_READER} is in the way, which the platform needs for itself: rename it`,
    );
  }
  return rows[0]!.complete;
}
