import assert from 'node:assert/strict';
import { neon, Pool } from '@neondatabase/serverless';
import { BOTH_HOSTS, type MatrixClient, type Place, tableName } from './matrix-client.ts';
import { packageVersion } from './package-version.ts';
import { setUpServerless } from './serverless-settings.ts';

const VALUES = `select $1::int4 as number, $2::int8 as big, $3::timestamptz as at, $4::jsonb as doc, $5::bytea as bytes,
  $6::text[] as words, $7::bool as flag, $8::text as nothing`;
const at = new Date('2026-11-22T12:34:56.789Z');
const ROW = {
  number: 42,
  big: '9007199254740993',
  at,
  doc: { list: [1, null, 'é'] },
  bytes: Buffer.from([0, 255, 92]),
  words: ['plain', 'com,ma', '"quoted"'],
  flag: true,
  nothing: null,
};

async function bringValuesBackOverHttp(place: Place): Promise<void> {
  setUpServerless(place);
  const [row] = await neon(place.uri).query(VALUES, Object.values(ROW));
  assert.deepEqual({ ...row, bytes: Buffer.from(row!.bytes) }, ROW);
}

async function batchOverHttp(place: Place): Promise<void> {
  setUpServerless(place);
  const sql = neon(place.uri);
  const table = tableName('serverless_http', place);
  const insert = `insert into ${table} values ($1, $2)`;
  await sql.query(`create table ${table} (id int primary key, text text)`);
  await sql.transaction([sql.query(insert, [1, 'one']), sql.query(insert, [2, 'two'])], {
    isolationLevel: 'Serializable',
  });
  const failing = sql.transaction([
    sql.query(`delete from ${table}`),
    sql.query(insert, [3, 'x']),
    sql.query('select 1/0'),
  ]);
  await assert.rejects(failing, { code: '22012' });
  await assert.rejects(sql.query(insert, [1, 'again']), { code: '23505', table });
  assert.deepEqual(await sql.query(`select id from ${table} order by id`), [{ id: 1 }, { id: 2 }]);
}

async function giveUpOverHttp(place: Place): Promise<void> {
  setUpServerless(place);
  const aborted = new AbortController();
  const asleep = neon(place.uri).query('select pg_sleep(600)', [], { fetchOptions: { signal: aborted.signal } });
  aborted.abort();
  await assert.rejects(asleep, /abort/i);
  assert.deepEqual(await neon(place.uri)`select 1 as one`, [{ one: 1 }]);
}

async function withPool<T>(place: Place, use: (pool: Pool) => Promise<T>): Promise<T> {
  setUpServerless(place);
  const pool = new Pool({ connectionString: place.uri, max: 6 });
  try {
    return await use(pool);
  } finally {
    await pool.end();
  }
}

async function bringValuesBackOverWebSocket(place: Place): Promise<void> {
  await withPool(place, async (pool) => {
    const ask = () => pool.query({ name: 'values', text: VALUES, values: Object.values(ROW) });
    for (const { rows } of await Promise.all(Array.from({ length: 30 }, ask))) assert.deepEqual(rows, [ROW]);
  });
}

async function commitAndRollBackOverWebSocket(place: Place): Promise<void> {
  const table = tableName('serverless_ws', place);
  await withPool(place, async (pool) => {
    await pool.query(`create table ${table} (id int primary key)`);
    const client = await pool.connect();
    await client.query(`begin`);
    await client.query(`insert into ${table} values (1)`);
    await client.query('commit');
    await client.query('begin');
    await client.query(`insert into ${table} values (2)`);
    await assert.rejects(client.query(`insert into ${table} values (1)`), { code: '23505' });
    await client.query('rollback');
    client.release();
    assert.deepEqual((await pool.query(`select id from ${table}`)).rows, [{ id: 1 }]);
  });
}

/** `@neondatabase/serverless`, over either of its ways. */
export const SERVERLESS: readonly MatrixClient[] = [
  {
    name: '@neondatabase/serverless, HTTP',
    version: packageVersion('@neondatabase/serverless'),
    hosts: BOTH_HOSTS,
    notes: 'both hosts take server connections from the pool',
    cases: {
      'brings values back': bringValuesBackOverHttp,
      'commits and rolls back': batchOverHttp,
      'gives up a query': giveUpOverHttp,
    },
  },
  {
    name: '@neondatabase/serverless, WebSocket',
    version: packageVersion('@neondatabase/serverless'),
    hosts: BOTH_HOSTS,
    notes: '',
    cases: {
      'brings values back, prepared on many connections': bringValuesBackOverWebSocket,
      'commits and rolls back': commitAndRollBackOverWebSocket,
    },
  },
];
