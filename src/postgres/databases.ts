import { escapeIdentifier } from 'pg';
import { CUSTOMER_GROUP } from './access.ts';
import { detachSubscriptions, rollBackPrepared } from './first-start.ts';
import { applyRole, type DesiredRole, dropRole } from './roles.ts';
import type { OpenSession, Session } from './session.ts';

/** What a database should be. */
export interface DesiredDatabase {
  readonly name: string;
  /** The name it had when it was last applied; null or the same: it was not renamed. */
  readonly applied_name: string | null;
  readonly owner_name: string;
  readonly deleted: boolean;
}

export interface ObservedDatabase {
  readonly name: string;
  readonly owner_name: string;
}

export interface Desired {
  readonly major: number;
  readonly roles: readonly DesiredRole[];
  readonly databases: readonly DesiredDatabase[];
}

/** What cannot be connected to or belongs to the platform. */
const OWN_DATABASES = ['postgres', 'template0', 'template1'];
const IN_USE_TRIES = 10;
const OBJECT_IN_USE = '55006';

/**
 * Makes roles and databases what they should be, and leaves what it was not told of. Asks the server each time, so it
 * may run twice or be killed anywhere; the caller then records the names as applied.
 */
export async function applyRolesAndDatabases(open: OpenSession, desired: Desired): Promise<void> {
  await using postgres = await open('postgres');
  for (const role of desired.roles) if (!role.deleted) await applyRole(postgres, role, desired.major);
  for (const database of desired.databases) {
    if (database.deleted) await dropDatabase(open, postgres, database.applied_name ?? database.name);
  }
  await renameDatabases(
    postgres,
    desired.databases.filter(({ deleted }) => !deleted),
  );
  for (const database of desired.databases) if (!database.deleted) await applyDatabase(postgres, database);
  for (const role of desired.roles) if (role.deleted) await dropRole(open, postgres, role.name);
}

/** Every database but the platform's own. */
export async function readDatabases(session: Session): Promise<ObservedDatabase[]> {
  const { rows } = await session.query<ObservedDatabase>(
    `SELECT datname AS name, pg_get_userbyid(datdba) AS owner_name FROM pg_database
      WHERE datname <> ALL ($1) ORDER BY datname`,
    [OWN_DATABASES],
  );
  return rows;
}

/**
 * A rename waits until its new name is free, so that a chain of renames (a to c, b to a) works in any order.
 * @throws when names go round in a circle
 */
async function renameDatabases(postgres: Session, databases: readonly DesiredDatabase[]): Promise<void> {
  let waiting = databases.filter(({ name, applied_name }) => applied_name !== null && applied_name !== name);
  while (waiting.length > 0) {
    const present = new Set((await postgres.query('SELECT datname FROM pg_database')).rows.map((row) => row.datname));
    const sources = new Set(waiting.map(({ applied_name }) => applied_name));
    // There under its new name already: an earlier run got that far.
    const left = waiting.filter(
      ({ name, applied_name }) => present.has(applied_name) && !(present.has(name) && !sources.has(name)),
    );
    const next = left.find(({ name }) => !present.has(name));
    if (!next) {
      if (left.length === 0) return;
      throw new Error(`databases exchange their names: ${left.map(({ name }) => name).join(', ')}; rename one by one`);
    }
    await renameDatabase(postgres, next.applied_name as string, next.name);
    waiting = left.filter((database) => database !== next);
  }
}

const renameDatabase = (postgres: Session, from: string, to: string): Promise<void> =>
  alone(postgres, from, `ALTER DATABASE ${escapeIdentifier(from)} RENAME TO ${escapeIdentifier(to)}`);

/** Runs a statement that wants a database without sessions. They are ended; those that come back are ended again. */
async function alone(postgres: Session, database: string, statement: string): Promise<void> {
  for (let tries = 1; ; tries++) {
    await postgres.query('SELECT pg_terminate_backend(pid, 2000) FROM pg_stat_activity WHERE datname = $1', [database]);
    try {
      await postgres.query(statement);
      return;
    } catch (error) {
      if ((error as { code?: string }).code !== OBJECT_IN_USE || tries === IN_USE_TRIES) throw error;
    }
  }
}

async function applyDatabase(postgres: Session, { name, owner_name }: DesiredDatabase): Promise<void> {
  const [database, owner] = [escapeIdentifier(name), escapeIdentifier(owner_name)];
  const { rows } = await postgres.query(
    'SELECT pg_get_userbyid(datdba) AS owner_name FROM pg_database WHERE datname = $1',
    [name],
  );
  if (rows.length === 0) await alone(postgres, 'template1', `CREATE DATABASE ${database} OWNER ${owner}`);
  else if (rows[0].owner_name !== owner_name) await postgres.query(`ALTER DATABASE ${database} OWNER TO ${owner}`);
  await postgres.query(`GRANT ALL ON DATABASE ${database} TO ${CUSTOMER_GROUP}`);
}

/** Drops a database whatever its customer did to keep it: template flag, refused connections, subscriptions, slots. */
async function dropDatabase(open: OpenSession, postgres: Session, name: string): Promise<void> {
  const { rowCount } = await postgres.query('SELECT FROM pg_database WHERE datname = $1', [name]);
  if (rowCount === 0) return;
  const database = escapeIdentifier(name);
  await rollBackPrepared(open, postgres, name);
  await detachSubscriptions(open, postgres, { database: name, drop: true });
  await postgres.query(`ALTER DATABASE ${database} IS_TEMPLATE false`);
  await postgres.query(`ALTER DATABASE ${database} ALLOW_CONNECTIONS false`);
  await postgres.query(
    'SELECT pg_terminate_backend(active_pid, 2000) FROM pg_replication_slots WHERE database = $1 AND active',
    [name],
  );
  await postgres.query(`DROP DATABASE ${database} WITH (FORCE)`);
}
