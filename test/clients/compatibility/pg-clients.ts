import assert from 'node:assert/strict';
import { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { pipeline } from 'node:stream/promises';
import pg from 'pg';
import { from as copyFrom, to as copyTo } from 'pg-copy-streams';
import Cursor from 'pg-cursor';
import QueryStream from 'pg-query-stream';
import { until } from '../../support/until.ts';
import { BOTH_HOSTS, type MatrixClient, type Place, tableName } from './matrix-client.ts';
import { packageVersion } from './package-version.ts';

const CONNECTIONS = 12;

async function withClient<T>(place: Place, use: (client: pg.Client) => Promise<T>, ssl?: pg.ClientConfig['ssl']) {
  const client = new pg.Client({ connectionString: place.uri, ssl });
  await client.connect();
  try {
    return await use(client);
  } finally {
    await client.end();
  }
}

async function withPool<T>({ uri }: Place, use: (pool: pg.Pool) => Promise<T>): Promise<T> {
  const pool = new pg.Pool({ connectionString: uri, max: CONNECTIONS });
  try {
    return await use(pool);
  } finally {
    await pool.end();
  }
}

const VALUES = `select $1::int4 as number, $2::int8 as big, $3::numeric as exact, $4::timestamptz as at, $5::jsonb as doc,
  $6::bytea as bytes, $7::text[] as words, $8::bool as flag, $9::text as nothing, $10::date::text as day`;

async function bringValuesBack(place: Place): Promise<void> {
  const at = new Date('2026-11-22T12:34:56.789Z');
  const doc = { list: [1, null, 'é'], deep: { x: true } };
  const words = ['plain', 'com,ma', '"quoted"', '\\', ''];
  await withClient(place, async (client) => {
    const values = [
      42,
      '9007199254740993',
      '1.10',
      at,
      doc,
      Buffer.from([0, 255, 92]),
      words,
      true,
      null,
      '2026-11-22',
    ];
    for (const _again of [1, 2]) {
      const { rows } = await client.query(VALUES, values);
      assert.deepEqual(rows, [
        {
          number: 42,
          big: '9007199254740993',
          exact: '1.10',
          at,
          doc,
          bytes: Buffer.from([0, 255, 92]),
          words,
          flag: true,
          nothing: null,
          day: '2026-11-22',
        },
      ]);
    }
  });
}

async function commitAndRollBack(place: Place): Promise<void> {
  const table = tableName('pg_accounts', place);
  await withClient(place, async (client) => {
    await client.query(`create table ${table} (id int primary key, money int not null check (money >= 0))`);
    await client.query(`begin; insert into ${table} values (1, 10), (2, 0); commit`);
    await client.query('begin');
    await client.query(`update ${table} set money = money + 20 where id = 2`);
    const failed = client.query(`update ${table} set money = money - 20 where id = 1`);
    await assert.rejects(failed, { code: '23514', table, constraint: `${table}_money_check` });
    await assert.rejects(client.query('select 1'), { code: '25P02' });
    await client.query('rollback');
    const { rows } = await client.query({ text: `select money from ${table} order by id`, rowMode: 'array' });
    assert.deepEqual(rows, [[10], [0]]);
  });
}

/** One name on every connection of a pool; on a pooled host these share fewer server connections. */
async function prepareOnManyConnections(place: Place): Promise<void> {
  await withPool(place, async (pool) => {
    const sums = await Promise.all(
      Array.from({ length: CONNECTIONS * 10 }, (_, index) =>
        pool.query({ name: `sum-${index % 3}`, text: `select $1::int + ${index % 3} as sum`, values: [index] }),
      ),
    );
    assert.deepEqual(
      sums.map(({ rows }) => rows[0].sum),
      sums.map((_, index) => index + (index % 3)),
    );
  });
}

async function cancel(place: Place): Promise<void> {
  await withClient(place, async (client) => {
    const { processID, secretKey } = client as unknown as { processID: number; secretKey: number };
    const asleep = assert.rejects(client.query("select 'sleeps for the test', pg_sleep(600)"), { code: '57014' });
    const seen = async () => {
      const count = `select count(*)::int as count from pg_stat_activity where query like 'select ''sleeps%' and state = 'active'`;
      return (await withClient(place, (other) => other.query(count))).rows[0].count > 0;
    };
    await until(seen, { what: 'the query that is to be cancelled' });
    const canceller = new pg.Client({ connectionString: place.uri }) as unknown as {
      connection: NodeJS.EventEmitter & {
        connect(port: number, host: string): void;
        cancel(id: number, key: number): void;
      };
      port: number;
      host: string;
    };
    const { connection } = canceller;
    connection.on('connect', () => connection.cancel(processID, secretKey)).on('error', () => undefined);
    connection.connect(canceller.port, canceller.host);
    await asleep;
    assert.deepEqual((await client.query('select 1 as one')).rows, [{ one: 1 }]);
  });
}

async function encrypt(place: Place): Promise<void> {
  const ssl = { ca: place.ca };
  const { rows } = await withClient(place, (client) => client.query('select $1::text as said', ['hidden']), ssl);
  assert.deepEqual(rows, [{ said: 'hidden' }]);
}

const FIRST_ROWS = 5_000;

async function readWithCursor(place: Place): Promise<void> {
  await withClient(place, async (client) => {
    const cursor = client.query(new Cursor<{ n: number }>('select n from generate_series(1, $1::int) n', [FIRST_ROWS]));
    let next = 1;
    for (let rows = await cursor.read(700); rows.length > 0; rows = await cursor.read(700)) {
      for (const { n } of rows) assert.equal(n, next++);
    }
    assert.equal(next, FIRST_ROWS + 1);
    const given = client.query(new Cursor('select generate_series(1, 100000)'));
    assert.equal((await given.read(10)).length, 10);
    await given.close();
    assert.equal((await client.query('select 1')).rowCount, 1);
    await assert.rejects(client.query(new Cursor('select 1 / (3 - n) from generate_series(1, 5) n')).read(10), {
      code: '22012',
    });
  });
}

async function stream(place: Place): Promise<void> {
  await withPool(place, async (pool) => {
    const client = await pool.connect();
    let sum = 0;
    for await (const { n } of client.query(
      new QueryStream('select n from generate_series(1, $1::int) n', [FIRST_ROWS], { batchSize: 500 }),
    ))
      sum += n;
    client.release();
    assert.equal(sum, (FIRST_ROWS * (FIRST_ROWS + 1)) / 2);
    assert.equal((await pool.query('select 1')).rowCount, 1);
  });
}

async function copyBothWays(place: Place): Promise<void> {
  const table = tableName('pg_copied', place);
  const lines = Array.from({ length: FIRST_ROWS }, (_, id) => `${id}\tthe text of ${id}\n`);
  await withClient(place, async (client) => {
    await client.query(`create table ${table} (id int primary key, text text)`);
    await pipeline(Readable.from(lines), client.query(copyFrom(`copy ${table} from stdin`)));
    const copied = await text(client.query(copyTo(`copy (select * from ${table} order by id) to stdout`)));
    assert.equal(copied, lines.join(''));
    const twice = pipeline(Readable.from(['1\tagain\n']), client.query(copyFrom(`copy ${table} from stdin`)));
    await assert.rejects(twice, { code: '23505' });
    assert.equal((await client.query(`select count(*)::int as count from ${table}`)).rows[0].count, FIRST_ROWS);
  });
}

/** `pg` and its companions. */
export const PG_CLIENTS: readonly MatrixClient[] = [
  {
    name: 'pg',
    version: packageVersion('pg'),
    hosts: BOTH_HOSTS,
    notes: '',
    cases: {
      'brings values back': bringValuesBack,
      'commits and rolls back': commitAndRollBack,
      'uses prepared statements on many connections': prepareOnManyConnections,
      'cancels a query': cancel,
      'encrypts, and checks the certificate': encrypt,
    },
  },
  {
    name: 'pg-cursor',
    version: packageVersion('pg-cursor'),
    hosts: BOTH_HOSTS,
    notes: '',
    cases: { 'reads in parts, gives up, and fails': readWithCursor },
  },
  {
    name: 'pg-query-stream',
    version: packageVersion('pg-query-stream'),
    hosts: BOTH_HOSTS,
    notes: '',
    cases: { 'streams rows': stream },
  },
  {
    name: 'pg-copy-streams',
    version: packageVersion('pg-copy-streams'),
    hosts: BOTH_HOSTS,
    notes: '',
    cases: { 'copies both ways': copyBothWays },
  },
];
