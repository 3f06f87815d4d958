import assert from 'node:assert/strict';
import knex, { type Knex } from 'knex';
import { BOTH_HOSTS, type MatrixClient, type Place, tableName } from './matrix-client.ts';
import { packageVersion } from './package-version.ts';

async function withKnex(place: Place, use: (db: Knex) => Promise<void>): Promise<void> {
  const db = knex({ client: 'pg', connection: place.uri, pool: { min: 0, max: 4 } });
  try {
    await use(db);
  } finally {
    await db.destroy();
  }
}

async function migrateAndUse(place: Place): Promise<void> {
  const table = tableName('knex', place);
  const steps: Record<string, (db: Knex) => Promise<void>> = {
    '1-create': (db) =>
      db.schema.createTable(table, (columns) => {
        columns.increments('id');
        columns.text('email').unique();
      }),
    '2-alter': (db) =>
      db.schema.alterTable(table, (columns) => {
        columns.specificType('tags', 'text[]');
        columns.jsonb('about');
        columns.binary('photo');
        columns.timestamp('seen');
      }),
  };
  await withKnex(place, async (db) => {
    await db.migrate.latest({
      tableName: `${table}_migrations`,
      migrationSource: {
        getMigrations: async () => Object.keys(steps),
        getMigrationName: (name: string) => name,
        getMigration: async (name: string) => ({ up: steps[name]!, down: async () => undefined }),
      },
    });
    const row = { email: 'a@b.c', tags: ['x', 'y,z'], photo: Buffer.from([0, 255]), seen: new Date(1_795_000_000_004) };
    const about = { likes: ['é'] };
    const [made] = await db.transaction((tx) => tx(table).insert({ ...row, about: JSON.stringify(about) }, '*'));
    assert.deepEqual(made, { id: 1, ...row, about });
    const failing = db.transaction(async (tx) => {
      await tx(table).delete();
      await tx(table).insert([{ email: 'x' }, { email: 'x' }]);
    });
    await assert.rejects(failing, { code: '23505', table });
    assert.deepEqual(
      await db(table).select('id').where({ email: 'a@b.c' }).whereJsonPath('about', '$.likes[0]', '=', 'é'),
      [{ id: 1 }],
    );
  });
}

async function stream(place: Place): Promise<void> {
  await withKnex(place, async (db) => {
    let sum = 0;
    for await (const { n } of db
      .select('n')
      .from(db.raw('generate_series(1, ?::int) n', [1000]))
      .stream({ batchSize: 100 })) {
      sum += n;
    }
    assert.equal(sum, 500_500);
  });
}

/** Knex over `pg`. */
export const KNEX: MatrixClient = {
  name: 'knex',
  version: packageVersion('knex'),
  hosts: BOTH_HOSTS,
  notes:
    'over `pg`; its migrations too. `timeout(ms, { cancel: true })` names a server process, so it cancels on direct hosts alone',
  cases: { 'migrates, commits and rolls back': migrateAndUse, 'streams rows': stream },
};
