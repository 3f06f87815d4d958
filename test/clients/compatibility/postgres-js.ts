import assert from 'node:assert/strict';
import { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { pipeline } from 'node:stream/promises';
import postgres from 'postgres';
import { until } from '../../support/until.ts';
import { BOTH_HOSTS, type MatrixClient, type Place, tableName } from './matrix-client.ts';
import { packageVersion } from './package-version.ts';

const ROWS = 3_000;

async function withSql<T>(
  { uri }: Place,
  use: (sql: postgres.Sql) => Promise<T>,
  options: postgres.Options<Record<string, never>> = {},
): Promise<T> {
  const sql = postgres(uri, { max: 8, onnotice: () => undefined, ...options });
  try {
    return await use(sql);
  } finally {
    await sql.end({ timeout: 5 });
  }
}

async function bringValuesBack(place: Place): Promise<void> {
  const at = new Date('2026-11-22T12:34:56.789Z');
  const doc = { list: [1, null, 'é'] };
  const bytes = Buffer.from([0, 255, 92]);
  const words = ['plain', 'com,ma', '"quoted"'];
  await withSql(place, async (sql) => {
    const ask = () => sql`select ${42}::int4 as number, ${'9007199254740993'}::int8 as big, ${at}::timestamptz as at,
      ${sql.json(doc)}::jsonb as doc, ${bytes}::bytea as bytes, ${words}::text[] as words, ${true}::bool as flag,
      ${null}::text as nothing`;
    const row = { number: 42, big: '9007199254740993', at, doc, bytes, words, flag: true, nothing: null };
    // At once on all connections: each prepares it by a name of its own.
    for (const rows of await Promise.all(Array.from({ length: 40 }, ask))) assert.deepEqual([...rows], [row]);
  });
}

async function commitAndRollBack(place: Place): Promise<void> {
  const table = tableName('postgres_js', place);
  await withSql(place, async (sql) => {
    await sql`create table ${sql(table)} (id int primary key, name text unique)`;
    await sql.begin(async (tx) => {
      await tx`insert into ${tx(table)} ${tx([
        { id: 1, name: 'one' },
        { id: 2, name: 'two' },
      ])}`;
      await tx.savepoint((inner) => inner`insert into ${inner(table)} values (1, 'again')`).catch(() => undefined);
    });
    const failing = sql.begin(async (tx) => {
      await tx`delete from ${tx(table)}`;
      await tx`insert into ${tx(table)} values (1, 'one'), (1, 'other')`;
    });
    await assert.rejects(failing, { code: '23505', table_name: table });
    assert.equal((await sql`select * from ${sql(table)}`).length, 2);
  });
}

async function readWithCursor(place: Place): Promise<void> {
  await withSql(place, async (sql) => {
    let sum = 0;
    for await (const rows of sql`select n from generate_series(1, ${ROWS}::int) n`.cursor(400)) {
      for (const { n } of rows) sum += n;
    }
    assert.equal(sum, (ROWS * (ROWS + 1)) / 2);
  });
}

async function copyBothWays(place: Place): Promise<void> {
  const table = tableName('postgres_js_copied', place);
  const lines = Array.from({ length: ROWS }, (_, id) => `${id}\ttext ${id}\n`);
  await withSql(place, async (sql) => {
    await sql`create table ${sql(table)} (id int primary key, text text)`;
    await pipeline(Readable.from(lines), await sql`copy ${sql(table)} from stdin`.writable());
    assert.equal(await text(await sql`copy ${sql(table)} to stdout`.readable()), lines.join(''));
  });
}

async function cancel(place: Place): Promise<void> {
  await withSql(place, async (sql) => {
    const asleep = sql`select pg_sleep(600), 'postgres.js sleeps'`;
    const refused = assert.rejects(asleep.execute(), { code: '57014' });
    await until(
      async () =>
        (
          await sql`select 1 from pg_stat_activity where state = 'active' and query like '%''postgres.js sl%'
          and pid <> pg_backend_pid()`
        ).length > 0,
      { what: 'the query that is to be cancelled' },
    );
    asleep.cancel();
    await refused;
  });
}

async function encrypt(place: Place): Promise<void> {
  const rows = await withSql(place, (sql) => sql`select ${'hidden'}::text as said`, { ssl: { ca: place.ca } });
  assert.deepEqual([...rows], [{ said: 'hidden' }]);
}

/** `postgres`, called postgres.js. */
export const POSTGRES_JS: MatrixClient = {
  name: 'postgres',
  version: packageVersion('postgres'),
  hosts: BOTH_HOSTS,
  notes: 'prepares each statement; `subscribe()` needs the direct host',
  cases: {
    'brings values back, prepared on many connections': bringValuesBack,
    'commits and rolls back': commitAndRollBack,
    'reads with a cursor': readWithCursor,
    'copies both ways': copyBothWays,
    'cancels a query': cancel,
    'encrypts, and checks the certificate': encrypt,
  },
};
