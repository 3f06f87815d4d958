import type { Duplex } from 'node:stream';
import { escapeIdentifier } from 'pg';
import { CUSTOMER_GROUP, PLATFORM_ROLE } from './access.ts';
import { finishRoles, makeRoles, readServerRoles, type ServerRoles } from './copy-roles.ts';
import { withConnectionsAllowed } from './database-access.ts';
import { createDatabase, grantDatabase, type ObservedDatabase, readDatabases } from './databases.ts';
import { restoreSchema, type SessionOf } from './restore-schema.ts';
import { type DumpRequest, dumpSchema } from './schema-dump.ts';
import { ensureSchemaReader } from './schema-reader.ts';
import { openSession, type Session } from './session.ts';
import { TEMPLATE_DATABASE, TEMPLATE_ROLE } from './template.ts';

type Dial = () => Promise<Duplex>;

/** What a server holds of a customer's besides schemas and data. */
export interface ServerContents {
  readonly roles: ServerRoles;
  readonly databases: readonly ObservedDatabase[];
}

/** Reads it, and sees to the role that reads schemas. */
export async function readContents(dial: Dial): Promise<ServerContents> {
  await using postgres = await openSession(dial, { database: 'postgres' });
  await ensureSchemaReader(postgres);
  return { roles: await readServerRoles(postgres), databases: await readDatabases(postgres) };
}

/** Whom the platform must be able to enter the new server as. */
export const ownersIn = ({ roles }: ServerContents): string[] => [
  CUSTOMER_GROUP,
  ...roles.roles.map(({ name }) => name),
];

/** Fills the databases of the new server, too. */
export interface RowsToCopy {
  /** Before anything is made: throws what `fill` would throw, as far as the source tells. */
  readonly check: () => Promise<void>;
  /** When the tables of a database are there, and neither indexes nor triggers nor keys. */
  readonly fill: (database: string, sessionOf: SessionOf) => Promise<void>;
  /** When all else is there. Sessions are ended by whoever opens them. */
  readonly finish: (database: string, open: (role: string) => Promise<Session>) => Promise<void>;
}

interface CopyWork {
  readonly contents: ServerContents;
  readonly major: number;
  readonly limit_bytes: number;
  readonly rows?: RowsToCopy;
  readonly signal: AbortSignal;
}

/**
 * Gives a new server, made of the template, the roles, databases and schemas of another one, and none of its data but what
 * `rows` fills in. Nobody else reaches either. Not to be run twice on the same new server.
 * @throws SchemaUnreadable, RestoreRefused
 */
export async function copySchemas(from: Dial, to: Dial, work: CopyWork): Promise<void> {
  const { contents, signal } = work;
  await using source = await openSession(from, { database: 'postgres' });
  await using postgres = await openSession(to, { database: 'postgres' });
  await makeRoles(postgres, contents.roles);
  await postgres.query(`ALTER ROLE ${CUSTOMER_GROUP} LOGIN`);
  await makeDatabases(postgres, contents);
  for (const database of contents.databases) {
    signal.throwIfAborted();
    await withConnectionsAllowed(source, database.name, () => copyDatabase(from, to, database, work));
  }
  await postgres.query(`ALTER ROLE ${CUSTOMER_GROUP} NOLOGIN`);
  await finishRoles(postgres, contents.roles);
}

async function copyDatabase(
  from: Dial,
  to: Dial,
  { name, owner_name }: ObservedDatabase,
  work: CopyWork,
): Promise<void> {
  const { contents, major, limit_bytes, rows, signal } = work;
  await copyPublicSchema(from, to, name);
  const dump = (section?: DumpRequest['section']) =>
    dumpSchema(from, { database: name, major, form: 'owners', section, signal, limit_bytes });
  const open = (user: string) => openForRestore(to, name, user, { patient: rows !== undefined });
  await restoreSchema(open, {
    ...{ database: name, owner: owner_name, roles: ownersIn(contents), signal },
    script: await dump(rows && 'pre-data'),
    rows: rows && { after: await dump('post-data'), fill: (sessionOf) => rows.fill(name, sessionOf) },
  });
  await rows?.finish(name, open);
}

/** @param how.patient statements may take as long as what they are about is large */
async function openForRestore(
  to: Dial,
  database: string,
  user: string,
  { patient }: { patient: boolean },
): Promise<Session> {
  const session = await openSession(to, { database, user, statement_timeout_ms: patient ? 0 : undefined });
  // The server is stopped before anybody relies on it.
  await session.query('SET synchronous_commit = off');
  return session;
}

/** The template's own database and its owner stay where the names are wanted. */
async function makeDatabases(postgres: Session, { databases, roles }: ServerContents): Promise<void> {
  const names = new Set(databases.map(({ name }) => name));
  if (!names.has(TEMPLATE_DATABASE)) await postgres.query(`DROP DATABASE IF EXISTS ${TEMPLATE_DATABASE}`);
  for (const { name, owner_name } of databases) {
    if (name !== TEMPLATE_DATABASE) await createDatabase(postgres, name, owner_name);
    await grantDatabase(postgres, name, owner_name);
  }
  const wanted = roles.roles.some(({ name }) => name === TEMPLATE_ROLE);
  if (!wanted) await postgres.query(`DROP ROLE IF EXISTS ${TEMPLATE_ROLE}`);
}

/** Its owner is in no dump, nor that it was dropped. */
async function copyPublicSchema(from: Dial, to: Dial, database: string): Promise<void> {
  await using source = await openSession(from, { database });
  const { rows } = await source.query<{ owner: string }>(
    "SELECT pg_get_userbyid(nspowner) AS owner FROM pg_namespace WHERE nspname = 'public'",
  );
  await using target = await openSession(to, { database, user: PLATFORM_ROLE });
  const owner = rows[0]?.owner;
  if (owner === undefined) await target.query('DROP SCHEMA public');
  else await target.query(`ALTER SCHEMA public OWNER TO ${escapeIdentifier(owner)}`);
}
