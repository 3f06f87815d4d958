import { createHash } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import { runMigrations } from 'graphile-worker';
import type pg from 'pg';

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
 * Brings our database to this version, or to where an earlier one was: after its first `count` migrations. Throws
 * StoreVersionError when it was written by a newer or a changed one.
 */
export async function migrate(pool: pg.Pool, { count }: { readonly count?: number } = {}): Promise<void> {
  const migrations = (await readMigrations()).slice(0, count);
  const client = await pool.connect();
  try {
    await client.query('select pg_advisory_lock($1)', [MIGRATION_LOCK]);
    await client.query('set statement_timeout = 0');
    await client.query('create schema if not exists coppice');
    await client.query(
      'create table if not exists coppice.migrations (number integer primary key, name text not null, checksum text not null, applied_at timestamptz not null default now())',
    );
    const applied = await client.query<{ number: number; checksum: string }>(
      'select number, checksum from coppice.migrations order by number',
    );
    checkApplied(migrations, applied.rows);
    for (const migration of migrations.slice(applied.rows.length)) await apply(client, migration);
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

async function apply(client: pg.PoolClient, { number, name, sql, checksum }: Migration): Promise<void> {
  await client.query('begin');
  try {
    await client.query('set local search_path = coppice');
    await client.query(sql);
    await client.query('insert into coppice.migrations (number, name, checksum) values ($1, $2, $3)', [
      number,
      name,
      checksum,
    ]);
    await client.query('commit');
  } catch (error) {
    await client.query('rollback');
    throw error;
  }
}
