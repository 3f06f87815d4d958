import assert from 'node:assert/strict';
import { readFile, writeFile } from 'node:fs/promises';
import { after, before, describe, it } from 'node:test';
import { parseSync } from 'oxc-parser';
import { migrate, StoreVersionError } from '../../src/store/migrate.ts';
import { type StoreServer, startStoreServer, type TestStore } from '../support/store.ts';

const SNAPSHOT = new URL('./schema.snapshot.txt', import.meta.url);
const TYPES = ['schema', 'event-schema', 'login-schema', 'metering-schema', 'audit-log-table'].map(
  (name) => new URL(`../../src/store/${name}.ts`, import.meta.url),
);

/** Tables, columns, constraints, indexes and triggers of our schemas, one a line. */
const DESCRIPTION = `
  select 'column ' || case table_schema when 'coppice' then '' else table_schema || '.' end || table_name || '.' || column_name || ' ' || data_type
    || case is_nullable when 'NO' then ' not null' else '' end || coalesce(' default ' || column_default, '') as line
  from information_schema.columns where table_schema in ('coppice', 'coppice_auth')
  union all
  select 'constraint ' || conrelid::regclass || ' ' || pg_get_constraintdef(oid)
  from pg_constraint where connamespace in ('coppice'::regnamespace, 'coppice_auth'::regnamespace) and contype <> 'n'
  union all
  select indexdef from pg_indexes where schemaname in ('coppice', 'coppice_auth')
  union all
  select pg_get_triggerdef(oid) from pg_trigger where not tgisinternal and tgrelid::regclass::text ~ '^(coppice(_auth)?\\.)?[a-z_]+$'
    and (select relnamespace from pg_class where pg_class.oid = tgrelid) in ('coppice'::regnamespace, 'coppice_auth'::regnamespace)
  order by 1`;

describe('the schema of our own database', { timeout: 120_000 }, () => {
  let server: StoreServer;
  let store: TestStore;

  before(async () => {
    server = await startStoreServer();
    store = await server.createStore();
  });
  after(async () => {
    await store.close();
    await server.stop();
  });

  it('is what the snapshot says; a change of it is meant and seen', async () => {
    const { rows } = await store.pool.query<{ line: string }>(DESCRIPTION);
    const described = `${rows.map(({ line }) => line).join('\n')}\n`;
    if (process.env.COPPICE_TEST_WRITE_SNAPSHOT) await writeFile(SNAPSHOT, described);
    assert.equal(described, await readFile(SNAPSHOT, 'utf8'));
  });

  it('has the columns that the types name, and no others', async () => {
    const { rows } = await store.pool.query<{ name: string }>(
      `select case table_schema when 'coppice' then '' else table_schema || '.' end || table_name || '.' || column_name as name
       from information_schema.columns join information_schema.tables using (table_schema, table_name)
       where table_schema in ('coppice', 'coppice_auth') and table_type = 'BASE TABLE' and table_name <> 'migrations'`,
    );
    const inDatabase = rows.map(({ name }) => name).sort();
    assert.deepEqual((await typedColumns()).sort(), inDatabase);
  });

  it('is not touched by a second migration', async () => {
    const read = async () =>
      (await store.pool.query('select number, checksum, applied_at from coppice.migrations order by 1')).rows;
    const first = await read();
    await migrate(store.pool);
    assert.deepEqual(await read(), first);
  });

  it('of a newer version is refused, and so is one whose migrations were changed', async () => {
    const other = await server.createStore();
    try {
      await other.pool.query("insert into coppice.migrations (number, name, checksum) values (9999, 'later', 'x')");
      await assert.rejects(migrate(other.pool), (error) => {
        assert.ok(error instanceof StoreVersionError);
        assert.match(error.message, /newer version of Coppice: it has migration 9999/);
        return true;
      });
      await other.pool.query('delete from coppice.migrations where number = 9999');
      await other.pool.query("update coppice.migrations set checksum = 'another' where number = 1");
      await assert.rejects(migrate(other.pool), /migration 1 of this store differs/);
    } finally {
      await other.close();
    }
  });
});

/** `table.column` of every table that the types of the store name. */
async function typedColumns(): Promise<string[]> {
  const texts = await Promise.all(TYPES.map((file) => readFile(file, 'utf8')));
  const { program } = parseSync('schema.ts', texts.join('\n'));
  const interfaces = new Map<string, { name: string; type: string | undefined }[]>();
  for (const statement of program.body) {
    const declaration = statement.type === 'ExportNamedDeclaration' ? statement.declaration : statement;
    if (declaration?.type !== 'TSInterfaceDeclaration') continue;
    const members = declaration.body.body.flatMap((member) => {
      if (member.type !== 'TSPropertySignature') return [];
      const name = member.key.type === 'Identifier' ? member.key.name : (member.key as { value?: string }).value;
      if (name === undefined) return [];
      const type = member.typeAnnotation?.typeAnnotation;
      const named = type?.type === 'TSTypeReference' && type.typeName.type === 'Identifier';
      return [{ name, type: named ? (type.typeName as { name: string }).name : undefined }];
    });
    interfaces.set(declaration.id.name, members);
  }
  const schemas = ['Schema', 'EventSchema', 'LoginSchema', 'MeteringSchema'].flatMap((name) => interfaces.get(name)!);
  return schemas.flatMap(({ name: table, type }) => interfaces.get(type!)!.map(({ name }) => `${table}.${name}`));
}
