import type { Duplex } from 'node:stream';
import { escapeIdentifier } from 'pg';
import { CUSTOMER_GROUP, PLATFORM_ROLE } from './access.ts';
import { finishRoles, makeRoles, readServerRoles, type ServerRoles } from './copy-roles.ts';
import { withConnectionsAllowed } from './database-access.ts';
import { createDatabase, grantDatabase, type ObservedDatabase, readDatabases } from './databases.ts';
import { restoreSchema } from './restore-schema.ts';
import { dumpSchema } from './schema-dump.ts';
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

/**
 * Gives a new server, made of the template, the roles, databases and schemas of another one, and none of its data. Nobody
 * else reaches either. Not to be run twice on the same new server.
 * @throws SchemaUnreadable, RestoreRefused
 */
export async function copySchemas(
  from: Dial,
  to: Dial,
  {
    contents,
    major,
    limit_bytes,
    signal,
  }: { contents: ServerContents; major: number; limit_bytes: number; signal: AbortSignal },
): Promise<void> {
  await using source = await openSession(from, { database: 'postgres' });
  await using postgres = await openSession(to, { database: 'postgres' });
  await makeRoles(postgres, contents.roles);
  await postgres.query(`ALTER ROLE ${CUSTOMER_GROUP} LOGIN`);
  await makeDatabases(postgres, contents);
  const roles = ownersIn(contents);
  for (const { name: database, owner_name: owner } of contents.databases) {
    signal.throwIfAborted();
    await withConnectionsAllowed(source, database, async () => {
      await copyPublicSchema(from, to, database);
      const script = await dumpSchema(from, { database, major, form: 'owners', signal, limit_bytes });
      const open = (user: string) => openForRestore(to, database, user);
      await restoreSchema(open, { script, database, owner, roles, signal });
    });
  }
  await postgres.query(`ALTER ROLE ${CUSTOMER_GROUP} NOLOGIN`);
  await finishRoles(postgres, contents.roles);
}

async function openForRestore(to: Dial, database: string, user: string): Promise<Session> {
  const session = await openSession(to, { database, user });
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
