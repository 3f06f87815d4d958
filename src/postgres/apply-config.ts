import { escapeIdentifier } from 'pg';
import { createDatabase, dropDatabase, grantDatabase, OWN_DATABASES, renameDatabase } from './databases.ts';
import { applyRole, type DesiredRole, dropRole } from './roles.ts';
import type { OpenSession, Session } from './session.ts';

/** What a database should be. */
export interface DesiredDatabase {
  /** Its identity, whatever it is called; never used again for another. */
  readonly id: number | string;
  readonly name: string;
  /** The name it had when it was last applied; null: it never was. */
  readonly applied_name: string | null;
  readonly owner_name: string;
  /** The owner as it was last applied or read. Where it is the same, none is set: the customer may have, in SQL. */
  readonly applied_owner_name?: string | null;
  readonly deleted: boolean;
}

export interface DesiredConfig {
  readonly roles: readonly DesiredRole[];
  readonly databases: readonly DesiredDatabase[];
  /** A new volume's role and database become the first that are wanted, unless they are wanted themselves. */
  readonly rename?: { readonly role: string; readonly database: string };
  /** Called when all roles are what they should be, but for those to be dropped: what follows may still fail. */
  readonly onRolesApplied?: () => Promise<void>;
}

/**
 * Makes roles and databases what they should be, and leaves what it was not told of. May run twice or be killed
 * anywhere: which database is which is written down in the server before anything is done to it, so that a second run
 * does not drop a new database for an old one of the same name.
 */
export async function applyRolesAndDatabases(open: OpenSession, desired: DesiredConfig): Promise<void> {
  await using postgres = await open('postgres');
  if (desired.rename) await renameFromTemplate(postgres, desired, desired.rename);
  for (const role of desired.roles) if (!role.deleted) await applyRole(postgres, role);
  await desired.onRolesApplied?.();
  await applyDatabases(open, postgres, desired.databases);
  for (const role of desired.roles) if (role.deleted) await dropRole(open, postgres, role.name);
}

/** Cheaper than making new ones: a database costs 7 MB of its own, a renamed one nothing. */
async function renameFromTemplate(
  postgres: Session,
  { roles, databases }: DesiredConfig,
  template: { readonly role: string; readonly database: string },
): Promise<void> {
  const wantedRoles = roles.filter((role) => !role.deleted);
  if (!wantedRoles.some(({ name }) => name === template.role)) {
    const present = await names(postgres, 'SELECT rolname AS name FROM pg_roles');
    const first = wantedRoles.find(({ name, origin }) => origin === 'api' && !present.has(name));
    if (first && present.has(template.role)) {
      await postgres.query(`ALTER ROLE ${escapeIdentifier(template.role)} RENAME TO ${escapeIdentifier(first.name)}`);
    }
  }
  const wantedDatabases = databases.filter((database) => !database.deleted);
  if (!wantedDatabases.some(({ name }) => name === template.database)) {
    const present = await names(postgres, 'SELECT datname AS name FROM pg_database');
    const first = wantedDatabases.find(({ name }) => !present.has(name));
    if (first && present.has(template.database)) await renameDatabase(postgres, template.database, first.name);
  }
}

async function names(postgres: Session, query: string): Promise<Set<string>> {
  return new Set((await postgres.query<{ name: string }>(query)).rows.map(({ name }) => name));
}

async function applyDatabases(
  open: OpenSession,
  postgres: Session,
  databases: readonly DesiredDatabase[],
): Promise<void> {
  if (databases.length === 0) return;
  const claims = await claimDatabases(postgres, databases);
  let present = await presentDatabases(postgres);
  for (const database of databases) {
    const name = present.get(claims.get(String(database.id)) ?? '');
    if (database.deleted && name !== undefined) await dropDatabase(open, postgres, name);
  }
  const wanted = databases.filter(({ deleted }) => !deleted);
  await renameDatabases(postgres, wanted, claims);
  for (const database of wanted) {
    // Applied before and not present: the customer dropped it in SQL meanwhile, which is not ours to undo.
    if (claims.has(String(database.id)) || database.applied_name !== null) continue;
    await createDatabase(postgres, database.name, database.owner_name);
    await claimDatabases(postgres, [database]);
  }
  present = await presentDatabases(postgres);
  const presentNames = new Set(present.values());
  for (const { name, owner_name, applied_owner_name } of wanted) {
    if (!presentNames.has(name)) continue;
    await grantDatabase(postgres, name, owner_name === applied_owner_name ? undefined : owner_name);
  }
}

/** Names by oid; the platform's own are none that could be claimed. */
async function presentDatabases(postgres: Session): Promise<Map<string, string>> {
  const { rows } = await postgres.query<{ oid: string; name: string }>(
    'SELECT oid::text, datname AS name FROM pg_database WHERE datname <> ALL ($1)',
    [OWN_DATABASES],
  );
  return new Map(rows.map(({ oid, name }) => [oid, name]));
}

/**
 * Which database of the server each of ours is: its oid by our id. What is seen for the first time is found by name,
 * those first that were applied before, and is written down. Customers can write to that table (`pg_write_all_data`), so
 * nothing is believed of it but which of their own databases is meant.
 */
async function claimDatabases(postgres: Session, databases: readonly DesiredDatabase[]): Promise<Map<string, string>> {
  await postgres.query('CREATE SCHEMA IF NOT EXISTS coppice');
  await postgres.query('CREATE TABLE IF NOT EXISTS coppice.databases (id text PRIMARY KEY, oid oid NOT NULL)');
  const { rows } = await postgres.query<{ id: string; oid: string }>(
    'SELECT id, oid::text FROM coppice.databases WHERE id = ANY ($1)',
    [databases.map(({ id }) => String(id))],
  );
  const claims = new Map(rows.map(({ id, oid }) => [id, oid]));
  const byName = new Map([...(await presentDatabases(postgres))].map(([oid, name]) => [name, oid]));
  const taken = new Set(databases.map(({ id }) => claims.get(String(id))));
  const unseen = databases.filter(({ id }) => !claims.has(String(id)));
  const applied = unseen.filter(({ applied_name }) => applied_name !== null);
  for (const { id, name, applied_name } of [...applied, ...unseen.filter((one) => one.applied_name === null)]) {
    const oid = byName.get(applied_name ?? name);
    if (oid === undefined || taken.has(oid)) continue;
    taken.add(oid);
    claims.set(String(id), oid);
    await postgres.query('INSERT INTO coppice.databases VALUES ($1, $2)', [String(id), oid]);
  }
  return claims;
}

/** A rename waits until its new name is free (a to c, then b to a); where names go round, one steps aside. */
async function renameDatabases(
  postgres: Session,
  wanted: readonly DesiredDatabase[],
  claims: ReadonlyMap<string, string>,
): Promise<void> {
  for (;;) {
    const present = await presentDatabases(postgres);
    const moves = wanted
      .map(({ id, name }) => ({ id, from: present.get(claims.get(String(id)) ?? ''), to: name }))
      .filter((move): move is typeof move & { from: string } => move.from !== undefined && move.from !== move.to);
    const occupied = new Set(present.values());
    const leaving = new Set(moves.map(({ from }) => from));
    // A name that nobody gives up is a customer's, made in SQL: the rename is tried and says so.
    const next = moves.find(({ to }) => !occupied.has(to) || !leaving.has(to));
    if (next) await renameDatabase(postgres, next.from, next.to);
    else if (moves[0]) await renameDatabase(postgres, moves[0].from, `coppice-renaming-${moves[0].id}`);
    else return;
  }
}
