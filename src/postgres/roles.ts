import { escapeIdentifier, escapeLiteral } from 'pg';
import { CoppiceError } from '../domain/errors.ts';
import { parseVerifier } from '../domain/scram-verifier.ts';
import { CUSTOMER_GROUP, EXPORT_ROLE, PLATFORM_ROLE, REPLICATION_ROLE, SCHEMA_READER } from './access.ts';
import { withConnectionsAllowed } from './database-access.ts';
import type { OpenSession, Session } from './session.ts';

/** What a role should be. */
export interface DesiredRole {
  readonly name: string;
  /**
   * `api`: made through the API and kept by us. `sql`: the customer's; only its password may be set, or it is dropped.
   * `token`: made by us for those who come with a token; the customer's from then on.
   */
  readonly origin: 'api' | 'sql' | 'token';
  /** Its password as a SCRAM verifier; null: none that we know of. */
  readonly verifier: string | null;
  /** The verifier as it was last applied or read. Where it is the same, nothing is set: the customer may have, in SQL. */
  readonly applied_verifier?: string | null;
  readonly can_login: boolean;
  readonly deleted: boolean;
}

/** What a server says of a role. */
export interface ObservedRole {
  readonly name: string;
  /** SCRAM verifier; null where the role has no password or one in another form, with which nobody can log in. */
  readonly verifier: string | null;
  readonly can_login: boolean;
  /** The password is refused from then on; null: never. */
  readonly valid_until: Date | null;
  /** It belongs to the group that roles made through the API belong to. */
  readonly privileged: boolean;
}

/** The attributes of a role made through the API. Before 16 CREATEROLE would let it grant itself the server's own rights. */
const attributes = (major: number): string =>
  `INHERIT CREATEDB BYPASSRLS REPLICATION ${major >= 16 ? 'CREATEROLE' : 'NOCREATEROLE'}`;

/** Makes a role as the API does, or gives an existing one what such a role has. */
export async function createApiRole(session: Session, name: string, { can_login = true } = {}): Promise<void> {
  const role = escapeIdentifier(name);
  const { rowCount } = await session.query('SELECT FROM pg_roles WHERE rolname = $1', [name]);
  const verb = rowCount === 0 ? 'CREATE' : 'ALTER';
  const { rows } = await session.query("SELECT current_setting('server_version_num')::int / 10000 AS major");
  await session.query(`${verb} ROLE ${role} ${can_login ? 'LOGIN' : 'NOLOGIN'} ${attributes(rows[0].major)}`);
  await session.query(`GRANT ${CUSTOMER_GROUP} TO ${role}`);
}

/** Every role that is not the platform's or the server's own. */
export async function readRoles(session: Session): Promise<ObservedRole[]> {
  const { rows } = await session.query<ObservedRole>(
    `SELECT rolname AS name, CASE WHEN rolpassword LIKE 'SCRAM-SHA-256$%' THEN rolpassword END AS verifier,
            rolcanlogin AS can_login, CASE WHEN isfinite(rolvaliduntil) THEN rolvaliduntil END AS valid_until,
            EXISTS (SELECT FROM pg_auth_members m JOIN pg_authid g ON g.oid = m.roleid
                     WHERE m.member = a.oid AND g.rolname = $1) AS privileged
       FROM pg_authid a
      WHERE rolname !~ '^pg_' AND rolname <> ALL ($2) AND NOT (rolname = $3 AND rolsuper)
      ORDER BY rolname`,
    [CUSTOMER_GROUP, [CUSTOMER_GROUP, PLATFORM_ROLE, REPLICATION_ROLE, SCHEMA_READER], EXPORT_ROLE],
  );
  return rows;
}

/** Makes one role what it should be, but for dropping it. `postgres` is a session in any database. */
export async function applyRole(postgres: Session, role: DesiredRole): Promise<void> {
  const { name, verifier, applied_verifier, can_login, origin } = role;
  const { rows } = await postgres.query('SELECT rolpassword FROM pg_authid WHERE rolname = $1', [name]);
  // A role made in SQL may be gone by now; it is then not ours to make again.
  if (origin === 'sql' && rows.length === 0) return;
  if (origin === 'api') await createApiRole(postgres, name, { can_login });
  // It may do nothing but what the customer grants it: policies hold for it, and no group's rights are its own.
  if (origin === 'token' && rows.length === 0) await postgres.query(`CREATE ROLE ${escapeIdentifier(name)} LOGIN`);
  const without = !rows[0]?.rolpassword;
  if (verifier === null || (verifier === applied_verifier && !without)) return;
  if (!parseVerifier(verifier)) throw new Error(`the verifier of the role ${name} is not a SCRAM verifier`);
  await postgres.query(`ALTER ROLE ${escapeIdentifier(name)} PASSWORD ${escapeLiteral(verifier)}`);
}

/**
 * Drops a role. What it owns in a database goes to that database's owner, and is dropped where the owner is a
 * superuser, since the customer's functions would otherwise run as one.
 * @throws when it owns a database: the caller decides what becomes of that
 */
export async function dropRole(open: OpenSession, postgres: Session, name: string): Promise<void> {
  const { rows: found } = await postgres.query('SELECT oid::int8 FROM pg_authid WHERE rolname = $1', [name]);
  if (found.length === 0) return;
  const role = escapeIdentifier(name);
  const owned = await postgres.query('SELECT datname FROM pg_database WHERE datdba = $1', [found[0].oid]);
  if (owned.rows.length > 0) {
    const names = owned.rows.map(({ datname }) => datname).join(', ');
    throw new CoppiceError('role_owns_databases', { name, databases: names });
  }
  await postgres.query(`ALTER ROLE ${role} NOLOGIN`);
  await postgres.query('SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usesysid = $1', [found[0].oid]);
  const { rows: databases } = await postgres.query<{ name: string; owner: string; superuser: boolean }>(
    `SELECT d.datname AS name, o.rolname AS owner, o.rolsuper AS superuser
       FROM pg_database d JOIN pg_authid o ON o.oid = d.datdba
      WHERE d.oid IN (SELECT dbid FROM pg_shdepend
                       WHERE refclassid = 'pg_authid'::regclass AND refobjid = $1 AND dbid <> 0)`,
    [found[0].oid],
  );
  for (const { name: database, owner, superuser } of databases) {
    await withConnectionsAllowed(postgres, database, async () => {
      await using session = await open(database);
      if (!superuser) await session.query(`REASSIGN OWNED BY ${role} TO ${escapeIdentifier(owner)}`);
      await session.query(`DROP OWNED BY ${role}`);
    });
  }
  // Grants on databases and settings, and memberships that it granted, are not tied to one database.
  await postgres.query(`DROP OWNED BY ${role}`);
  await postgres.query(`DROP ROLE ${role}`);
}
