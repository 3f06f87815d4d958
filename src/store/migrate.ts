import { createHash } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';
import { runMigrations } from 'graphile-worker';
import pg from 'pg';

export interface Migration {
  readonly number: number;
  readonly name: string;
  readonly sql: string;
  /** SHA-256 of the text, in hexadecimal: an applied migration never changes. */
  readonly checksum: string;
}

/** The store does not fit this version of Coppice. The message says what to do. */
export class StoreVersionError extends Error {
  override name = 'StoreVersionError';
}

const DIRECTORY = new URL('./migrations/', import.meta.url);
/** Any constant: two processes that start at once migrate one after the other. */
const MIGRATION_LOCK = 7_432_001;
/** How often somebody who waits for another one's migration looks, and for how long at most. */
const TURN_INTERVAL_MS = 100;
const TURN_TIMEOUT_MS = 3_600_000;

/**
 * A migration of a store in use that waits for a lock makes everybody wait who comes after it. So it waits for a short time
 * only, gives back what it has, and comes again.
 */
const LOCK_TIMEOUT_MS = 1_000;
const LOCK_PAUSE_MS = 500;
const LOCK_ATTEMPTS = 200;
const LOCK_NOT_AVAILABLE = '55P03';

/**
 * The first line of a migration that is run statement by statement, each by itself: indexes of large tables are built
 * `concurrently`, which keeps nobody from writing. It may be interrupted anywhere and run again, so each index is first dropped
 * if it is there, which half of one may be.
 */
const BY_STATEMENTS = '-- outside of a transaction\n';

/** The migrations of this version, in order; they are numbered from 1 without gaps. */
async function readMigrations(): Promise<Migration[]> {
  const files = (await readdir(DIRECTORY)).filter((file) => file.endsWith('.sql')).sort();
  return Promise.all(
    files.map(async (file, index) => {
      const sql = await readFile(new URL(file, DIRECTORY), 'utf8');
      const number = Number(file.slice(0, 6));
      if (number !== index + 1) throw new Error(`migration ${file} should have number ${index + 1}`);
      return { number, name: file.slice(7, -4), sql, checksum: createHash('sha256').update(sql).digest('hex') };
    }),
  );
}

/**
 * Brings our database to this version, or to where an earlier one was: after its first `count` migrations. Others may go on
 * with it meanwhile. Throws StoreVersionError when it was written by a newer or a changed one.
 */
export async function migrate(
  pool: pg.Pool,
  { count, lock_timeout_ms = LOCK_TIMEOUT_MS }: { readonly count?: number; readonly lock_timeout_ms?: number } = {},
): Promise<void> {
  const migrations = (await readMigrations()).slice(0, count);
  const client = await pool.connect();
  try {
    await takeTurn(client);
    await client.query('set statement_timeout = 0');
    await client.query('create schema if not exists coppice');
    await client.query(
      'create table if not exists coppice.migrations (number integer primary key, name text not null, checksum text not null, applied_at timestamptz not null default now())',
    );
    const applied = await client.query<{ number: number; checksum: string }>(
      'select number, checksum from coppice.migrations order by number',
    );
    checkApplied(migrations, applied.rows);
    for (const migration of migrations.slice(applied.rows.length)) {
      if (migration.sql.startsWith(BY_STATEMENTS)) await applyByStatements(client, migration);
      else await applyWhole(client, migration, lock_timeout_ms);
    }
  } finally {
    // Closing the session gives the lock back, whatever happened.
    client.release(true);
  }
  await runMigrations({ pgPool: pool });
}

/** Throws StoreVersionError when this version does not know the migrations that another store was written by. */
export async function checkMigrations(applied: readonly { number: number; checksum: string }[]): Promise<void> {
  checkApplied(await readMigrations(), applied);
}

function checkApplied(migrations: Migration[], applied: readonly { number: number; checksum: string }[]): void {
  const newest = applied.at(-1)?.number ?? 0;
  if (newest > migrations.length) {
    throw new StoreVersionError(
      `this store was written by a newer version of Coppice: it has migration ${newest}, this version knows ${migrations.length}. Run that newer version, or restore a backup made by this one.`,
    );
  }
  const changed = applied.find((row) => migrations[row.number - 1]?.checksum !== row.checksum);
  if (changed) {
    throw new StoreVersionError(
      `migration ${changed.number} of this store differs from the one in this version of Coppice. Run the version that wrote the store.`,
    );
  }
}

/** Asks again and again, since a statement that waits would be waited for by an index that is built concurrently. */
async function takeTurn(client: pg.PoolClient): Promise<void> {
  const give_up_at = Date.now() + TURN_TIMEOUT_MS;
  for (;;) {
    const { rows } = await client.query('select pg_try_advisory_lock($1) as taken', [MIGRATION_LOCK]);
    if (rows[0].taken) return;
    if (Date.now() > give_up_at) throw new Error('another process has been migrating our own database for an hour');
    await delay(TURN_INTERVAL_MS);
  }
}

async function applyWhole(client: pg.PoolClient, migration: Migration, lock_timeout_ms: number): Promise<void> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await applyAtOnce(client, migration, lock_timeout_ms);
    } catch (error) {
      const is_in_use = error instanceof pg.DatabaseError && error.code === LOCK_NOT_AVAILABLE;
      if (!is_in_use || attempt === LOCK_ATTEMPTS) throw error;
    }
    await delay(LOCK_PAUSE_MS);
  }
}

async function applyAtOnce(client: pg.PoolClient, migration: Migration, lock_timeout_ms: number): Promise<void> {
  await client.query('begin');
  try {
    await client.query(`set local search_path = coppice; set local lock_timeout = ${lock_timeout_ms}`);
    await client.query(migration.sql);
    await noteApplied(client, migration);
    await client.query('commit');
  } catch (error) {
    await client.query('rollback');
    throw error;
  }
}

async function applyByStatements(client: pg.PoolClient, migration: Migration): Promise<void> {
  await client.query('set search_path = coppice');
  for (const statement of migration.sql.split(/;$/m)) {
    if (statement.trim() !== '') await client.query(statement);
  }
  await noteApplied(client, migration);
}

async function noteApplied(client: pg.PoolClient, { number, name, checksum }: Migration): Promise<void> {
  await client.query('insert into coppice.migrations (number, name, checksum) values ($1, $2, $3)', [
    number,
    name,
    checksum,
  ]);
}
