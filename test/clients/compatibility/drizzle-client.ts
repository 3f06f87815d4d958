import assert from 'node:assert/strict';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Pool as NeonPool, neon } from '@neondatabase/serverless';
import { eq, sql } from 'drizzle-orm';
import { drizzle as overHttp } from 'drizzle-orm/neon-http';
import { drizzle as overWebSocket } from 'drizzle-orm/neon-serverless';
import { migrate as migrateOverWebSocket } from 'drizzle-orm/neon-serverless/migrator';
import { drizzle as overPg } from 'drizzle-orm/node-postgres';
import { migrate as migrateOverPg } from 'drizzle-orm/node-postgres/migrator';
import { customType, integer, jsonb, type PgDatabase, pgTable, text, timestamp } from 'drizzle-orm/pg-core';
import { drizzle as overPostgresJs } from 'drizzle-orm/postgres-js';
import { migrate as migrateOverPostgresJs } from 'drizzle-orm/postgres-js/migrator';
import pg from 'pg';
import postgres from 'postgres';
import { BOTH_HOSTS, type MatrixClient, type Place, tableName } from './matrix-client.ts';
import { packageVersion } from './package-version.ts';
import { setUpServerless } from './serverless-settings.ts';

const bytea = customType<{ data: Buffer }>({ dataType: () => 'bytea' });
const personTable = (name: string) =>
  pgTable(name, {
    id: integer().primaryKey(),
    email: text().unique(),
    tags: text().array(),
    about: jsonb(),
    photo: bytea(),
    seen: timestamp({ withTimezone: true }),
  });

/** Two migrations, in the files that `drizzle-kit generate` writes. */
async function writeMigrations(directory: string, table: string): Promise<string> {
  const folder = join(directory, table);
  await mkdir(join(folder, 'meta'), { recursive: true });
  const steps = [
    `create table ${table} (id int primary key, email text unique);--> statement-breakpoint\ncreate index on ${table} (email);`,
    `alter table ${table} add tags text[], add about jsonb, add photo bytea, add seen timestamptz;`,
  ];
  const entries = steps.map((_, idx) => ({
    idx,
    version: '7',
    when: 1_795_000_000_000 + idx,
    tag: `000${idx}`,
    breakpoints: true,
  }));
  await writeFile(join(folder, 'meta/_journal.json'), JSON.stringify({ version: '7', dialect: 'postgresql', entries }));
  for (const [index, step] of steps.entries()) await writeFile(join(folder, `000${index}.sql`), step);
  return folder;
}

/** Drizzle wraps the driver's error, but for batches. */
const isDuplicate = (error: Error & { code?: string; cause?: { code?: string } }): boolean =>
  (error.cause?.code ?? error.code) === '23505';

// biome-ignore lint/suspicious/noExplicitAny: any of its drivers
type Database = PgDatabase<any, any>;

/** @param transactions whether the driver has any */
async function useTable(db: Database, name: string, transactions = true): Promise<void> {
  const people = personTable(name);
  const row = {
    id: 1,
    email: 'a@b.c',
    tags: ['x', 'y,z'],
    about: { likes: ['é'] },
    photo: Buffer.from([0, 255]),
    seen: new Date('2026-11-22T01:02:03.004Z'),
  };
  assert.deepEqual(await db.insert(people).values(row).returning(), [row]);
  await assert.rejects(async () => db.insert(people).values(row), isDuplicate);
  if (transactions) {
    await db.transaction((tx) => tx.insert(people).values({ ...row, id: 2, email: 'two' }), {
      isolationLevel: 'serializable',
    });
    const failing = db.transaction(async (tx) => {
      await tx.delete(people);
      await tx.insert(people).values([
        { id: 3, email: 'x' },
        { id: 4, email: 'x' },
      ]);
    });
    await assert.rejects(failing, isDuplicate);
    assert.equal((await db.select().from(people)).length, 2);
  }
  const byId = db
    .select({ email: people.email })
    .from(people)
    .where(eq(people.id, sql.placeholder('id')))
    .prepare('by_id');
  const found = await Promise.all(Array.from({ length: 20 }, () => byId.execute({ id: 1 })));
  for (const rows of found) assert.deepEqual(rows, [{ email: 'a@b.c' }]);
}

const settings = async (place: Place, table: string) => ({
  migrationsFolder: await writeMigrations(place.directory, table),
  migrationsSchema: 'drizzle',
  migrationsTable: table,
});

async function throughPg(place: Place): Promise<void> {
  const table = tableName('drizzle_pg', place);
  const pool = new pg.Pool({ connectionString: place.uri, max: 5 });
  try {
    const db = overPg(pool);
    await migrateOverPg(db, await settings(place, table));
    await useTable(db, table);
  } finally {
    await pool.end();
  }
}

async function throughPostgresJs(place: Place): Promise<void> {
  const table = tableName('drizzle_postgres_js', place);
  const client = postgres(place.uri, { max: 5, onnotice: () => undefined });
  try {
    const db = overPostgresJs(client);
    await migrateOverPostgresJs(db, await settings(place, table));
    await useTable(db, table);
  } finally {
    await client.end({ timeout: 5 });
  }
}

async function throughWebSocket(place: Place): Promise<void> {
  setUpServerless(place);
  const table = tableName('drizzle_ws', place);
  const pool = new NeonPool({ connectionString: place.uri, max: 5 });
  try {
    const db = overWebSocket(pool);
    await migrateOverWebSocket(db, await settings(place, table));
    await useTable(db, table);
  } finally {
    await pool.end();
  }
}

async function throughHttp(place: Place): Promise<void> {
  setUpServerless(place);
  const table = tableName('drizzle_http', place);
  const db = overHttp(neon(place.uri));
  await db.execute(
    `create table ${table} (id int primary key, email text unique, tags text[], about jsonb, photo bytea, seen timestamptz)`,
  );
  await useTable(db, table, false);
  const people = personTable(table);
  const batch = db.batch([db.insert(people).values({ id: 2 }), db.insert(people).values({ id: 1 })]);
  await assert.rejects(batch, isDuplicate);
  assert.equal((await db.select().from(people)).length, 1);
}

/** Drizzle over four drivers. */
export const DRIZZLE: MatrixClient = {
  name: 'drizzle-orm',
  version: packageVersion('drizzle-orm'),
  hosts: BOTH_HOSTS,
  notes: '`node-postgres`, `postgres-js`, `neon-serverless` and `neon-http`; its migrations too, over the first three',
  cases: {
    'migrates, commits and rolls back over pg': throughPg,
    'migrates, commits and rolls back over postgres.js': throughPostgresJs,
    'migrates, commits and rolls back over WebSocket': throughWebSocket,
    'reads and writes over HTTP': throughHttp,
  },
};
