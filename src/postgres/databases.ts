import { escapeIdentifier } from 'pg';
import { CUSTOMER_GROUP } from './access.ts';
import { rollBackPrepared } from './prepared-transactions.ts';
import type { OpenSession, Session } from './session.ts';
import { detachSubscriptions } from './subscriptions.ts';

/** What a server says of a database. */
export interface ObservedDatabase {
  readonly name: string;
  readonly owner_name: string;
}

/** The platform's own; customers may enter them, and they are never changed for them. */
export const OWN_DATABASES: readonly string[] = ['postgres', 'template0', 'template1'];
const IN_USE_TRIES = 10;
const OBJECT_IN_USE = '55006';

/** Every database but the platform's own. */
export async function readDatabases(session: Session): Promise<ObservedDatabase[]> {
  const { rows } = await session.query<ObservedDatabase>(
    `SELECT datname AS name, pg_get_userbyid(datdba) AS owner_name FROM pg_database
      WHERE datname <> ALL ($1) ORDER BY datname`,
    [OWN_DATABASES],
  );
  return rows;
}

/** Makes a database where there is none of that name. `postgres` is a session in the database of that name. */
export const createDatabase = (postgres: Session, name: string, owner: string): Promise<void> =>
  alone(postgres, 'template1', `CREATE DATABASE ${escapeIdentifier(name)} OWNER ${escapeIdentifier(owner)}`);

export const renameDatabase = (postgres: Session, from: string, to: string): Promise<void> =>
  alone(postgres, from, `ALTER DATABASE ${escapeIdentifier(from)} RENAME TO ${escapeIdentifier(to)}`);

/** Its owner, unless that is to stay, and what every role made through the API may do in it. */
export async function grantDatabase(postgres: Session, name: string, owner: string | undefined): Promise<void> {
  const database = escapeIdentifier(name);
  if (owner !== undefined) await postgres.query(`ALTER DATABASE ${database} OWNER TO ${escapeIdentifier(owner)}`);
  await postgres.query(`GRANT ALL ON DATABASE ${database} TO ${CUSTOMER_GROUP}`);
}

/** Drops a database whatever its customer did to keep it: template flag, refused connections, subscriptions, slots. */
export async function dropDatabase(open: OpenSession, postgres: Session, name: string): Promise<void> {
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
