import assert from 'node:assert/strict';
import { type ColumnType, type Generated, Kysely, Migrator, PostgresDialect, sql } from 'kysely';
import pg from 'pg';
import Cursor from 'pg-cursor';
import { BOTH_HOSTS, type MatrixClient, type Place, tableName } from './matrix-client.ts';
import { packageVersion } from './package-version.ts';

interface Person {
  id: Generated<number>;
  email: string;
  tags: string[];
  about: ColumnType<{ likes: string[] }, string>;
  photo: Buffer;
  seen: Date;
}

// biome-ignore lint/suspicious/noExplicitAny: the table is named after the place
const open = ({ uri }: Place): Kysely<any> =>
  new Kysely({
    dialect: new PostgresDialect({ pool: new pg.Pool({ connectionString: uri, max: 4 }), cursor: Cursor }),
  });

async function migrateAndUse(place: Place): Promise<void> {
  const table = tableName('kysely', place);
  const db = open(place);
  try {
    const migrator = new Migrator({
      db,
      migrationTableName: `${table}_migrations`,
      migrationLockTableName: `${table}_lock`,
      provider: {
        getMigrations: async () => ({
          '1-create': {
            up: (db) =>
              db.schema
                .createTable(table)
                .addColumn('id', 'serial', (column) => column.primaryKey())
                .addColumn('email', 'text', (column) => column.unique())
                .execute(),
          },
          '2-alter': {
            up: (db) =>
              db.schema
                .alterTable(table)
                .addColumn('tags', sql`text[]`)
                .addColumn('about', 'jsonb')
                .addColumn('photo', 'bytea')
                .addColumn('seen', 'timestamptz')
                .execute(),
          },
        }),
      },
    });
    const { error, results } = await migrator.migrateToLatest();
    assert.equal(error, undefined);
    assert.deepEqual(
      results?.map(({ status }) => status),
      ['Success', 'Success'],
    );
    await useTable(db as Kysely<Record<string, Person>>, table);
  } finally {
    await db.destroy();
  }
}

async function useTable(db: Kysely<Record<string, Person>>, table: string): Promise<void> {
  const seen = new Date('2026-11-22T01:02:03.004Z');
  const row = { email: 'a@b.c', tags: ['x', 'y,z'], photo: Buffer.from([0, 255]), seen };
  const about = { likes: ['é'] };
  await db.transaction().execute(async (tx) => {
    const insert = tx.insertInto(table).values({ ...row, about: JSON.stringify(about) });
    assert.deepEqual(await insert.returningAll().executeTakeFirst(), { id: 1, ...row, about });
  });
  const failing = db
    .transaction()
    .setIsolationLevel('serializable')
    .execute(async (tx) => {
      await tx.deleteFrom(table).execute();
      await tx
        .insertInto(table)
        .values({ ...row, about: '1' })
        .execute();
      await tx
        .insertInto(table)
        .values({ ...row, about: '1' })
        .execute();
    });
  await assert.rejects(failing, { code: '23505' });
  const found = await db.selectFrom(table).select(['id', 'about']).where('email', '=', 'a@b.c').execute();
  assert.deepEqual(found, [{ id: 1, about }]);
}

async function stream(place: Place): Promise<void> {
  const db = open(place);
  try {
    const rows = db.selectFrom(sql<{ n: number }>`generate_series(1, ${1000}::int)`.as('n')).select('n').stream(100);
    let sum = 0;
    for await (const { n } of rows) sum += n;
    assert.equal(sum, 500_500);
  } finally {
    await db.destroy();
  }
}

/** Kysely over `pg`. */
export const KYSELY: MatrixClient = {
  name: 'kysely',
  version: packageVersion('kysely'),
  hosts: BOTH_HOSTS,
  notes: 'over `pg`; its migrations too',
  cases: { 'migrates, commits and rolls back': migrateAndUse, 'streams rows': stream },
};
