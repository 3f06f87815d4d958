import { escapeIdentifier, escapeLiteral } from 'pg';
import { CUSTOMER_GROUP, PLATFORM_ROLE, SCHEMA_READER } from './access.ts';
import type { Session } from './session.ts';

/** A role with all that a server knows of it but for what it owns. */
interface FullRole {
  readonly name: string;
  /** `LOGIN NOCREATEDB ...` */
  readonly attributes: string;
  readonly connection_limit: number;
  /** A SCRAM verifier. */
  readonly verifier: string | null;
  readonly valid_until: string | null;
}

interface Membership {
  readonly role: string;
  readonly member: string;
  /** `ADMIN TRUE, INHERIT FALSE`; before 16 there is only the first. */
  readonly options: string;
}

/** `ALTER ROLE ... IN DATABASE ... SET`, as the catalog keeps it. */
interface RoleSetting {
  readonly database: string | null;
  readonly role: string | null;
  readonly settings: string[];
}

/** The customer's roles of a server. */
export interface ServerRoles {
  readonly roles: readonly FullRole[];
  readonly memberships: readonly Membership[];
  readonly settings: readonly RoleSetting[];
}

const PLATFORM_ROLES = [PLATFORM_ROLE, SCHEMA_READER];

/** Reads every role of the customer's, whether the API knows it or not. Superusers are left out: there should be none. */
export async function readServerRoles(session: Session): Promise<ServerRoles> {
  const roles = await session.query<FullRole>(
    `SELECT rolname AS name, rolconnlimit AS connection_limit, rolvaliduntil::text AS valid_until,
            CASE WHEN rolpassword LIKE 'SCRAM-SHA-256$%' THEN rolpassword END AS verifier,
            concat_ws(' ', CASE WHEN rolcanlogin THEN 'LOGIN' ELSE 'NOLOGIN' END,
              CASE WHEN rolinherit THEN 'INHERIT' ELSE 'NOINHERIT' END,
              CASE WHEN rolcreatedb THEN 'CREATEDB' ELSE 'NOCREATEDB' END,
              CASE WHEN rolcreaterole THEN 'CREATEROLE' ELSE 'NOCREATEROLE' END,
              CASE WHEN rolreplication THEN 'REPLICATION' ELSE 'NOREPLICATION' END,
              CASE WHEN rolbypassrls THEN 'BYPASSRLS' ELSE 'NOBYPASSRLS' END) AS attributes
       FROM pg_authid WHERE rolname !~ '^pg_' AND NOT rolsuper AND rolname <> ALL ($1) ORDER BY oid`,
    [[...PLATFORM_ROLES, CUSTOMER_GROUP]],
  );
  const { rows } = await session.query("SELECT current_setting('server_version_num')::int / 10000 AS major");
  const since16 = rows[0].major >= 16;
  const options = since16
    ? `format('ADMIN %s, INHERIT %s, SET %s', bool_or(m.admin_option)::text, bool_or(m.inherit_option)::text,
              bool_or(m.set_option)::text)`
    : "CASE WHEN bool_or(m.admin_option) THEN 'ADMIN OPTION' END";
  // Granted by several, it is granted here once.
  const memberships = await session.query<Membership>(
    `SELECT g.rolname AS role, a.rolname AS member, ${options} AS options
       FROM pg_auth_members m JOIN pg_authid g ON g.oid = m.roleid JOIN pg_authid a ON a.oid = m.member
      WHERE NOT g.rolsuper AND NOT a.rolsuper AND g.rolname <> ALL ($1)
        AND a.rolname !~ '^pg_' AND a.rolname <> ALL ($2)
      GROUP BY m.roleid, m.member, g.rolname, a.rolname ORDER BY m.roleid, m.member`,
    [PLATFORM_ROLES, [...PLATFORM_ROLES, CUSTOMER_GROUP]],
  );
  const settings = await session.query<RoleSetting>(
    `SELECT datname AS database, rolname AS role, setconfig AS settings
       FROM pg_db_role_setting LEFT JOIN pg_database d ON d.oid = setdatabase LEFT JOIN pg_authid r ON r.oid = setrole
      WHERE (setdatabase = 0) = (d.oid IS NULL) AND (setrole = 0) = (r.oid IS NULL)
        AND (r.oid IS NULL OR NOT r.rolsuper AND r.rolname <> ALL ($1)) AND (d.oid IS NOT NULL OR r.oid IS NOT NULL)`,
    [PLATFORM_ROLES],
  );
  return { roles: roles.rows, memberships: memberships.rows, settings: settings.rows };
}

/** Makes the roles, with what they belong to. They can all be entered, and have no passwords, until `finishRoles`. */
export async function makeRoles(session: Session, { roles, memberships }: ServerRoles): Promise<void> {
  const { rows } = await session.query<{ name: string }>('SELECT rolname AS name FROM pg_roles');
  const present = new Set(rows.map(({ name }) => name));
  for (const { name } of roles) {
    await session.query(`${present.has(name) ? 'ALTER' : 'CREATE'} ROLE ${escapeIdentifier(name)} LOGIN`);
  }
  for (const { role, member, options } of memberships) {
    const withOptions = options ? ` WITH ${options}` : '';
    await session.query(`GRANT ${escapeIdentifier(role)} TO ${escapeIdentifier(member)}${withOptions}`);
  }
}

/** Gives the roles their attributes, passwords and settings; databases must be there. */
export async function finishRoles(session: Session, { roles, settings }: ServerRoles): Promise<void> {
  for (const { name, attributes, connection_limit, verifier, valid_until } of roles) {
    const until = valid_until === null ? '' : ` VALID UNTIL ${escapeLiteral(valid_until)}`;
    const password = `PASSWORD ${verifier === null ? 'NULL' : escapeLiteral(verifier)}`;
    await session.query(
      `ALTER ROLE ${escapeIdentifier(name)} ${attributes} CONNECTION LIMIT ${connection_limit} ${password}${until}`,
    );
  }
  // As they are in the catalog: to say it with ALTER ROLE one would have to know which settings are lists.
  for (const { database, role, settings: values } of settings) {
    await session.query(
      `INSERT INTO pg_db_role_setting (setdatabase, setrole, setconfig)
       SELECT coalesce(d.oid, 0), coalesce(r.oid, 0), $3
         FROM (SELECT) one LEFT JOIN pg_database d ON d.datname = $1 LEFT JOIN pg_authid r ON r.rolname = $2
        WHERE ($1::text IS NULL OR d.oid IS NOT NULL) AND ($2::text IS NULL OR r.oid IS NOT NULL)`,
      [database, role, values],
    );
  }
}
