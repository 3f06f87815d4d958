import { escapeIdentifier } from 'pg';
import { CUSTOMER_GROUP, PLATFORM_ROLE } from './access.ts';
import type { Session } from './session.ts';
import { sqlStatements } from './sql-statements.ts';

export interface SchemaToRestore {
  /** As `dumpSchema` gives it in the form `owners`: all of it, or the section before the rows. */
  readonly script: string;
  /** Rows that are filled in between, and the section that comes after them. */
  readonly rows?: { readonly after: string; readonly fill: (sessionOf: SessionOf) => Promise<void> };
  readonly database: string;
  readonly owner: string;
  /** Every role that may own something; each can be entered. */
  readonly roles: readonly string[];
  readonly signal: AbortSignal;
}

/** A session in the new database, as one of the roles. It is ended by whoever gave it. */
export type SessionOf = (role: string) => Promise<Session>;

/** A statement of a schema that its owner may not run, or that does not run. The message is for the customer. */
export class RestoreRefused extends Error {
  constructor(statement: string, cause: Error) {
    super(`the schema could not be restored: ${cause.message}; statement:"${firstLine(statement)}"`, { cause });
  }
}

const SESSIONS_MAX = 8;
const INSUFFICIENT_PRIVILEGE = '42501';
/** Written before each owner's objects: a literal. Inside grants, for their grantor: a name. */
const BECOME = /^SET SESSION AUTHORIZATION (?:'((?:[^']|'')*)'|"((?:[^"]|"")*)"|(DEFAULT)|([a-z_][a-z0-9_$]*))$/i;
const BECOME_AGAIN = /^RESET SESSION AUTHORIZATION$/i;
/** Set by the session from its start, and so that no version refuses it. */
const SESSION_SETTING = /^(SET\s|SELECT pg_catalog\.set_config\('search_path', '', false\)$)/i;
const PRIVILEGES = /^(GRANT|REVOKE|ALTER DEFAULT PRIVILEGES)\s/i;
const NEW_SCHEMA = /^CREATE SCHEMA\s/i;
const FOREIGN_KEY = /\sFOREIGN KEY\s/i;

/**
 * Runs the dump of a schema in a new database that nobody else reaches. Each statement runs in a session of its owner,
 * who was let in as such and can become nobody else: what a schema brings to run (functions of indexes and constraints,
 * casts, operators) runs with its owner's rights and never with the platform's. What a server has from the platform is
 * left out, since the new one has it, too.
 *
 * Owners may own what they could not make any more, in schemas that are closed to them. So they may make things anywhere until the grants
 * of the dump are reached, which come last.
 *
 * @param open sessions to the database, as a role
 * @throws RestoreRefused
 */
export async function restoreSchema(open: (role: string) => Promise<Session>, wanted: SchemaToRestore): Promise<void> {
  await using platform = await open(PLATFORM_ROLE);
  await using sessions = ownSessions(open);
  const makers = makersOf(platform, wanted);
  await makers.admit();
  let [role, before] = [PLATFORM_ROLE, PLATFORM_ROLE];
  for (const statement of statementsOf(wanted)) {
    wanted.signal.throwIfAborted();
    if (statement === ROWS) {
      await wanted.rows?.fill(sessions.of);
      continue;
    }
    const become = BECOME.exec(statement);
    if (become) {
      before = role;
      role = roleOf(become, wanted.owner);
    } else if (BECOME_AGAIN.test(statement)) role = before;
    else if (!SESSION_SETTING.test(statement) && wanted.roles.includes(role)) {
      if (PRIVILEGES.test(statement)) await makers.dismiss();
      await run(await sessions.of(role), statement, role, makers);
      if (NEW_SCHEMA.test(statement)) await makers.admit();
    }
  }
  await makers.dismiss();
}

/** Where the rows are filled in. Grants come last, as in a dump that is whole. */
const ROWS = Symbol('rows');

function* statementsOf({ script, rows }: SchemaToRestore): Generator<string | typeof ROWS> {
  if (!rows) return yield* sqlStatements(script);
  const grants: string[] = [];
  yield* withoutGrants(script, grants);
  yield ROWS;
  yield* withoutGrants(rows.after, grants);
  yield* grants;
}

/** The statements of a section up to its grants, which are kept, with whose they are. */
function* withoutGrants(script: string, grants: string[]): Generator<string> {
  let become: string | undefined;
  let reached = false;
  for (const statement of sqlStatements(script)) {
    if (PRIVILEGES.test(statement) && !reached) {
      reached = true;
      if (become) grants.push(become);
    }
    if (BECOME.test(statement)) become = statement;
    if (reached) grants.push(statement);
    else yield statement;
  }
}

/** The owner of a database stands in for the role that means "whoever owns the database". */
function roleOf([, literal, quoted, isDefault, name]: RegExpExecArray, owner: string): string {
  const role = literal?.replaceAll("''", "'") ?? quoted?.replaceAll('""', '"') ?? name ?? '';
  return isDefault || role === 'pg_database_owner' ? owner : role;
}

async function run(
  session: Session,
  statement: string,
  role: string,
  makers: ReturnType<typeof makersOf>,
): Promise<void> {
  try {
    await session.query(statement).catch(async (error) => {
      if (error.code !== INSUFFICIENT_PRIVILEGE) throw error;
      if (PRIVILEGES.test(statement)) return makers.admitBriefly(role, () => session.query(statement));
      // A key may lead to a table of somebody else's.
      if (!FOREIGN_KEY.test(statement)) throw error;
      await makers.admitToTables(role);
      await session.query(statement);
    });
  } catch (error) {
    throw new RestoreRefused(statement, error as Error);
  }
}

/**
 * Rights that the owners have while the schema is made. Who owns something is left out: taking from an owner what was
 * given before would take what an owner has anyway.
 */
function makersOf(platform: Session, { database, owner, roles }: SchemaToRestore) {
  const others = (...owners: string[]): string =>
    roles
      .filter((role) => !owners.includes(role))
      .map((role) => escapeIdentifier(role))
      .join(', ');
  const change = async (verb: 'GRANT' | 'REVOKE', privileges: string, grantees: string) => {
    if (grantees !== '') await platform.query(`${verb} ${privileges} ${verb === 'GRANT' ? 'TO' : 'FROM'} ${grantees}`);
  };
  const changeAll = async (verb: 'GRANT' | 'REVOKE') => {
    await change(verb, `CREATE ON DATABASE ${escapeIdentifier(database)}`, others(owner, CUSTOMER_GROUP));
    const schemas = await platform.query<{ name: string; owner: string }>(
      `SELECT nspname AS name, pg_get_userbyid(nspowner) AS owner FROM pg_namespace
        WHERE nspname !~ '^pg_' AND nspname <> 'information_schema'`,
    );
    for (const schema of schemas.rows) {
      await change(verb, `USAGE, CREATE ON SCHEMA ${escapeIdentifier(schema.name)}`, others(schema.owner));
    }
  };
  const changeTables = async (verb: 'GRANT' | 'REVOKE', role: string) => {
    const tables = await platform.query<{ schema: string; name: string }>(
      `SELECT nspname AS schema, relname AS name FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE relkind IN ('r', 'p') AND nspname !~ '^pg_' AND nspname <> 'information_schema'
          AND pg_get_userbyid(relowner) <> $1`,
      [role],
    );
    for (const { schema, name } of tables.rows) {
      const table = `${escapeIdentifier(schema)}.${escapeIdentifier(name)}`;
      await change(verb, `REFERENCES ON TABLE ${table}`, escapeIdentifier(role));
    }
  };
  const admittedToTables = new Set<string>();
  let over = false;
  return {
    admit: async () => {
      if (!over) await changeAll('GRANT');
    },
    admitToTables: async (role: string) => {
      admittedToTables.add(role);
      await changeTables('GRANT', role);
    },
    /** The owner of something may have no way into its schema, and still grant rights on it. */
    admitBriefly: async (role: string, work: () => Promise<unknown>) => {
      const { rows } = await platform.query<{ name: string }>(
        `SELECT nspname AS name FROM pg_namespace
          WHERE nspname !~ '^pg_' AND NOT has_schema_privilege($1, oid, 'USAGE')`,
        [role],
      );
      const changeThem = async (verb: 'GRANT' | 'REVOKE') => {
        for (const { name } of rows) {
          await change(verb, `USAGE ON SCHEMA ${escapeIdentifier(name)}`, escapeIdentifier(role));
        }
      };
      await changeThem('GRANT');
      await work();
      await changeThem('REVOKE');
    },
    dismiss: async () => {
      if (over) return;
      over = true;
      await changeAll('REVOKE');
      for (const role of admittedToTables) await changeTables('REVOKE', role);
    },
  };
}

/** One session for each owner, the latest few. */
function ownSessions(open: (role: string) => Promise<Session>) {
  const sessions = new Map<string, Session>();
  const end = async (role: string) => {
    const session = sessions.get(role);
    sessions.delete(role);
    await session?.[Symbol.asyncDispose]();
  };
  return {
    of: async (role: string): Promise<Session> => {
      const session = sessions.get(role) ?? (await open(role));
      sessions.delete(role);
      sessions.set(role, session);
      if (sessions.size > SESSIONS_MAX) await end(sessions.keys().next().value!);
      return session;
    },
    [Symbol.asyncDispose]: async () => {
      for (const role of [...sessions.keys()]) await end(role);
    },
  };
}

const firstLine = (statement: string): string => statement.split('\n', 1)[0]!.slice(0, 200);
