import assert from 'node:assert/strict';
import { DataSource, EntitySchema, type MigrationInterface, type QueryRunner, TableColumn } from 'typeorm';
import { BOTH_HOSTS, type MatrixClient, type Place, tableName } from './matrix-client.ts';
import { packageVersion } from './package-version.ts';

interface Person {
  id: number;
  email: string;
  tags: string[];
  about: object;
  photo: Buffer;
  seen: Date;
}

const personSchema = (table: string): EntitySchema<Person> =>
  new EntitySchema<Person>({
    name: table,
    columns: {
      id: { type: 'int', primary: true, generated: true },
      email: { type: 'text', unique: true },
      tags: { type: 'text', array: true },
      about: { type: 'jsonb' },
      photo: { type: 'bytea' },
      seen: { type: 'timestamptz' },
    },
  });

/** The names of its migrations end in times. */
function migrationsOf(table: string): (new () => MigrationInterface)[] {
  return [
    class Create1700000000001 implements MigrationInterface {
      async up(runner: QueryRunner): Promise<void> {
        await runner.query(
          `create table ${table} (id serial primary key, email text unique, tags text[], about jsonb)`,
        );
      }
      async down(): Promise<void> {}
    },
    class Alter1700000000002 implements MigrationInterface {
      async up(runner: QueryRunner): Promise<void> {
        await runner.addColumns(table, [
          new TableColumn({ name: 'photo', type: 'bytea', isNullable: true }),
          new TableColumn({ name: 'seen', type: 'timestamptz', isNullable: true }),
        ]);
      }
      async down(): Promise<void> {}
    },
  ];
}

/** It drops what follows the question mark of an address, so `extra` carries `options`. */
async function withSource(place: Place, use: (source: DataSource, table: string) => Promise<void>): Promise<void> {
  const table = tableName('typeorm', place);
  const source = new DataSource({
    type: 'postgres',
    url: place.uri,
    extra: { options: new URL(place.uri).searchParams.get('options') },
    entities: [personSchema(table)],
    migrations: migrationsOf(table),
    migrationsTableName: `${table}_migrations`,
  });
  await source.initialize();
  try {
    await use(source, table);
  } finally {
    await source.destroy();
  }
}

const migrateAndUse = (place: Place): Promise<void> =>
  withSource(place, async (source, table) => {
    assert.equal((await source.runMigrations()).length, 2);
    const people = source.getRepository<Person>(table);
    const row = {
      email: 'a@b.c',
      tags: ['x', 'y,z'],
      about: { likes: ['é'] },
      photo: Buffer.from([0, 255]),
      seen: new Date('2026-11-22T01:02:03.004Z'),
    };
    await source.transaction('SERIALIZABLE', (tx) => tx.save(table, { ...row }));
    assert.deepEqual({ ...(await people.findOneByOrFail({ email: 'a@b.c' })) }, { id: 1, ...row });
    const failing = source.transaction(async (tx) => {
      await tx.delete(table, { id: 1 });
      await tx.insert(table, { ...row, email: 'x' });
      await tx.insert(table, { ...row, email: 'x' });
    });
    await assert.rejects(failing, { code: '23505', table });
    assert.equal(await people.count(), 1);
    let streamed = 0;
    for await (const _row of await people.createQueryBuilder('person').stream()) streamed++;
    assert.equal(streamed, 1);
  });

/** With TLS the host is enough, as under a domain. */
async function encrypt(place: Place): Promise<void> {
  const source = new DataSource({ type: 'postgres', url: place.uri, ssl: { ca: place.ca } });
  await source.initialize();
  try {
    assert.deepEqual(await source.query('select $1::text as said', ['hidden']), [{ said: 'hidden' }]);
  } finally {
    await source.destroy();
  }
}

/** TypeORM over `pg`. */
export const TYPEORM: MatrixClient = {
  name: 'typeorm',
  version: packageVersion('typeorm'),
  hosts: BOTH_HOSTS,
  notes:
    "over `pg`; its migrations too. It drops `?options=` of an address: without TLS give it as `extra: { options: 'endpoint=<id>' }`",
  cases: {
    'migrates, commits and rolls back, streams': migrateAndUse,
    'encrypts, and finds the endpoint by the host': encrypt,
  },
};
