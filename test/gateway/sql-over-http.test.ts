import assert from 'node:assert/strict';
import type { Socket } from 'node:net';
import { after, before, describe, it } from 'node:test';
import { type NeonDbError, neon, neonConfig, Pool, type QueryConfig } from '@neondatabase/serverless';
import { ENDPOINT, type GatedPostgres, openGatedPostgres, PASSWORD, ROLE } from '../support/gated-postgres.ts';
import { type HttpDoor, openHttpDoor } from '../support/http-door.ts';
import { postSql, sqlUrl, sqlValue } from '../support/sql-requests.ts';
import { until } from '../support/until.ts';

let gated: GatedPostgres;
let door: HttpDoor;
before(async () => {
  gated = await openGatedPostgres();
  door = await openHttpDoor(gated.gateway);
  neonConfig.fetchEndpoint = () => `${door.url}/sql`;
  await gated.postmaster.query('CREATE TABLE public.kept (id int PRIMARY KEY, note text)', 'neondb');
  await gated.postmaster.query(`ALTER TABLE public.kept OWNER TO ${ROLE}`, 'neondb');
});
after(async () => {
  await door?.[Symbol.asyncDispose]();
  await gated?.[Symbol.asyncDispose]();
});

const url = sqlUrl;
const post = (body: unknown, headers: Record<string, string> = {}, to = door) => postSql(to, body, headers);
const value = (query: string, params: unknown[] = []) => sqlValue(door, query, params);

const refused = (message: string | RegExp, code: string) => (error: Error) => {
  const { code: found, message: said } = error as NeonDbError;
  assert.equal(found, code);
  if (typeof message === 'string') assert.equal(said, message);
  else assert.match(said, message);
  return true;
};

describe('the serverless driver over HTTP', () => {
  it('asks with parameters, and gets values', async () => {
    const sql = neon(url());
    const at = new Date('2026-01-02T03:04:05.006Z');
    const bytes = Buffer.from([0, 1, 255]);
    const rows = await sql`SELECT ${41}::int + 1 AS sum, ${`it's "so"\\`} AS text, ${[1, 2]}::int[] AS numbers,
      ${null}::text AS nothing, ${{ a: [1] }}::jsonb AS json, ${at}::timestamptz AS at, ${bytes}::bytea AS bytes,
      ${['x"y', null]}::text[] AS texts, ${12345678901234567890n}::numeric AS big, ${true}::bool AS yes`;
    assert.deepEqual(rows, [
      {
        sum: 42,
        text: `it's "so"\\`,
        numbers: [1, 2],
        nothing: null,
        json: { a: [1] },
        at,
        bytes,
        texts: ['x"y', null],
        big: '12345678901234567890',
        yes: true,
      },
    ]);
  });

  it('gets the same full result as over a connection', async () => {
    const statements = [
      "SELECT id, note, 1.5::numeric(8,2) AS price, 'x'::varchar(9) FROM kept",
      'INSERT INTO kept SELECT 1000 WHERE false',
      'UPDATE kept SET note = NULL WHERE false',
      'CREATE TEMP TABLE for_a_moment (id int)',
    ];
    Object.assign(neonConfig, { useSecureWebSocket: false, wsProxy: `127.0.0.1:${door.port}/v2` });
    const pool = new Pool({ connectionString: url() });
    const sql = neon(url(), { fullResults: true });
    for (const text of statements) {
      for (const arrayMode of [true, false]) {
        const overHttp = await sql.query(text, [], { arrayMode });
        const asked: QueryConfig & { rowMode?: 'array' } = arrayMode ? { text, rowMode: 'array' } : { text };
        const direct = await pool.query(asked);
        const { fields, rows, command, rowCount, rowAsArray } = overHttp;
        assert.deepEqual(
          { fields: [...fields], rows, command, rowCount, rowAsArray },
          {
            fields: direct.fields.map((field) => ({ ...field })),
            rows: direct.rows,
            command: direct.command,
            rowCount: direct.rowCount,
            rowAsArray: arrayMode,
          },
        );
        if (text.startsWith('CREATE')) await pool.query('DROP TABLE IF EXISTS for_a_moment');
      }
    }
    await pool.end();
    await until(() => gated.gateway.sessionCount(ENDPOINT) === 0, { what: 'the pool to be gone' });
  });

  it('gets errors with all their fields', async () => {
    const sql = neon(url());
    await sql`INSERT INTO kept VALUES (1, 'one')`;
    await assert.rejects(sql`INSERT INTO kept VALUES (1, 'again')`, (error: NeonDbError) => {
      const { code, severity, schema, table, constraint, detail, position } = error;
      assert.deepEqual(
        { code, severity, schema, table, constraint, detail, position: position ?? undefined },
        {
          code: '23505',
          severity: 'ERROR',
          schema: 'public',
          table: 'kept',
          constraint: 'kept_pkey',
          detail: 'Key (id)=(1) already exists.',
          position: undefined,
        },
      );
      return true;
    });
    await assert.rejects(sql`SELECT nothing_here`, { code: '42703', position: '8', routine: 'errorMissingColumn' });
    await assert.rejects(sql`SELECT ${1}::int, ${'x'}::int`, { code: '22P02' });
    await sql`DELETE FROM kept`;
  });

  it('runs a batch in one transaction, with what was asked for it', async () => {
    const sql = neon(url());
    const settings = () => sql`SELECT current_setting('transaction_isolation') AS level,
      current_setting('transaction_read_only') AS read_only, current_setting('transaction_deferrable') AS deferrable`;
    const plain = await sql.transaction([sql`SELECT txid_current()`, sql`SELECT txid_current()`, settings()]);
    assert.deepEqual(plain[0], plain[1]);
    assert.deepEqual(plain[2], [{ level: 'read committed', read_only: 'off', deferrable: 'off' }]);
    const strict = { isolationLevel: 'Serializable', readOnly: true, deferrable: true } as const;
    assert.deepEqual(await sql.transaction([settings()], strict), [
      [{ level: 'serializable', read_only: 'on', deferrable: 'on' }],
    ]);
    assert.deepEqual(await sql.transaction([]), []);
  });

  it('loses a whole batch with its first failure', async () => {
    const sql = neon(url());
    const broken = sql.transaction([
      sql`INSERT INTO kept VALUES (7)`,
      sql`SELECT 1 / 0`,
      sql`INSERT INTO kept VALUES (8)`,
    ]);
    await assert.rejects(broken, refused('division by zero', '22012'));
    const readOnly = sql.transaction([sql`INSERT INTO kept VALUES (9)`], { readOnly: true });
    await assert.rejects(readOnly, { code: '25006' });
    assert.deepEqual(await sql`SELECT * FROM kept`, []);
  });

  it('is refused with a wrong password, as an unknown role is, and wakes nobody', async () => {
    await gated.postmaster.stop();
    const { wakes } = gated.waker;
    for (const user of [ROLE, 'nobody']) {
      const sql = neon(url({ user, password: 'npg_wrong' }));
      await assert.rejects(sql`SELECT 1`, refused(`password authentication failed for user '${user}'`, '28P01'));
    }
    const elsewhere = neon(url({ options: 'endpoint=ep-nowhere-oak-a1b2c3d4' }));
    await assert.rejects(elsewhere`SELECT 1`, refused(/password authentication failed/, '28P01'));
    assert.equal((await post('{')).status, 400);
    assert.equal(gated.waker.wakes, wakes);
    assert.deepEqual(await neon(url())`SELECT 1 AS one`, [{ one: 1 }]);
    assert.equal(gated.waker.wakes, wakes + 1);
  });
});

describe('an answer', () => {
  it('holds values as JSON where no raw text is asked for', async () => {
    const { body } = await post({
      query: `SELECT 1 AS int, 1.5::float8 AS float, 'NaN'::float8 AS nan, true AS bool, '{"x": [1]}'::jsonb AS json,
        9007199254740993 AS big, 'a"b' AS text, NULL AS nothing, '{1,NULL,3}'::int[] AS ints, '{t,f}'::bool[] AS bools,
        '[2:3]={a,"b,\\"}"}'::text[] AS texts, '{{1,2},{3,4}}'::int[] AS grid, '{"",NULL,"NULL"}'::text[] AS blanks,
        ARRAY['{"a":1}'::json] AS jsons, 1 AS twice, 2 AS twice`,
    });
    assert.deepEqual(body.rows, [
      {
        ...{ int: 1, float: 1.5, nan: 'NaN', bool: true, json: { x: [1] }, big: '9007199254740993', text: 'a"b' },
        ...{ nothing: null, ints: [1, null, 3], bools: [true, false], texts: ['a', 'b,"}'] },
        grid: [
          [1, 2],
          [3, 4],
        ],
        blanks: ['', null, 'NULL'],
        jsons: [{ a: 1 }],
        twice: 2,
      },
    ]);
    assert.deepEqual(Object.keys(body), ['fields', 'rows', 'command', 'rowCount', 'rowAsArray']);
  });

  it('holds the text of values, and arrays for rows, where that is asked for', async () => {
    const modes = { 'neon-raw-text-output': 'true', 'neon-array-mode': 'true' };
    const { body } = await post({ query: "SELECT 1, true, '{1,2}'::int[], NULL" }, modes);
    assert.deepEqual(body.rows, [['1', 't', '{1,2}', null]]);
    assert.equal(body.rowAsArray, true);
    const own = await post(
      { queries: [{ query: 'SELECT 1 AS a', arrayMode: false }, { query: 'SELECT 1 AS a' }] },
      modes,
    );
    assert.deepEqual(
      own.body.results.map(({ rows }: { rows: unknown }) => rows),
      [[{ a: '1' }], [['1']]],
    );
  });

  it('takes parameters of every kind of JSON', async () => {
    assert.equal(await value('SELECT $1::int + 1', [1]), 2);
    assert.equal(await value('SELECT $1::bool', [true]), true);
    assert.equal(await value('SELECT $1::text', [null]), null);
    assert.deepEqual(await value('SELECT $1::jsonb', [{ a: [1, '"'] }]), { a: [1, '"'] });
    assert.deepEqual(await value('SELECT $1::text[]', [['a"b', 'c\\d', 'line\nbreak', null]]), [
      'a"b',
      'c\\d',
      'line\nbreak',
      null,
    ]);
    assert.deepEqual(await value('SELECT $1::int[]', [[[1], [2]]]), [[1], [2]]);
    assert.deepEqual(await value('SELECT $1::jsonb[]', [[{ a: '"\\' }]]), [{ a: '"\\' }]);
  });

  it('may be as large as the request: one value, and many rows', async () => {
    const long = 'é'.repeat(5_000_000);
    assert.equal(await value('SELECT $1::text', [long]), long);
    const { body } = await post({ query: 'SELECT at FROM generate_series(1, 50000) AS at' });
    assert.deepEqual([body.rowCount, body.rows.length, body.rows.at(-1)], [50_000, 50_000, { at: 50_000 }]);
  });

  it('to an empty query is empty', async () => {
    const { status, body } = await post({ query: ' -- nothing' });
    const nothing = { fields: [], rows: [], command: '', rowCount: null, rowAsArray: false };
    assert.deepEqual([status, body], [200, nothing]);
  });

  it('tells who asked for it in the log, and repeats what was applied', async () => {
    const headers = { 'neon-batch-isolation-level': 'RepeatableRead', 'neon-batch-read-only': 'true' };
    const answer = await post({ queries: [] }, { ...headers, 'neon-batch-deferrable': 'TRUE' });
    assert.deepEqual(answer.body, { results: [] });
    for (const [name, sent] of Object.entries(headers)) assert.equal(answer.headers.get(name), sent);
    assert.equal(answer.headers.get('neon-batch-deferrable'), null);
    assert.equal(answer.headers.get('access-control-allow-origin'), '*');
    const id = answer.headers.get('neon-request-id');
    await until(() => gated.ended.some(({ session_id }) => session_id === id), { what: 'the end of the request' });
    const record = gated.ended.find(({ session_id }) => session_id === id)!;
    assert.deepEqual([record.protocol, record.user, record.endpoint_id], ['http', ROLE, ENDPOINT]);
  });
});

describe('what one request did to its session', () => {
  it('is not seen by the next, though server processes are used again', async () => {
    const traces = [
      "SELECT set_config('search_path', 'nowhere', false)",
      'SET statement_timeout = 12345',
      'CREATE TEMP TABLE trace (id int)',
      'SELECT pg_advisory_lock(42)',
      'LISTEN trace',
      'PREPARE trace AS SELECT 1',
      'SET ROLE pg_database_owner',
      'DECLARE trace CURSOR WITH HOLD FOR SELECT 1',
    ];
    for (const query of traces) await post({ query });
    const left = `SELECT current_setting('search_path') || current_setting('statement_timeout') || current_user
      || coalesce(to_regclass('trace')::text, '') || (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory')
      || (SELECT count(*) FROM pg_listening_channels()) || (SELECT count(*) FROM pg_prepared_statements)
      || (SELECT count(*) FROM pg_cursors WHERE name = 'trace')`;
    assert.equal(await value(left), `"$user", public0${ROLE}0000`);
    const pids = new Set<unknown>();
    for (let count = 0; count < 20; count++) pids.add(await value('SELECT pg_backend_pid()'));
    assert.ok(pids.size < 20);
  });

  it('is undone where it left a transaction open', async () => {
    await post({ query: 'BEGIN' });
    assert.equal((await post({ query: 'SAVEPOINT here' })).body.code, '25P01');
  });

  it('is nothing to who asks with other settings or another password', async () => {
    const named = { 'neon-connection-string': url({ more: '&application_name=a%20name&statement_timeout=7000' }) };
    const { body } = await post(
      { query: "SELECT current_setting('application_name') || current_setting('statement_timeout') AS all" },
      named,
    );
    assert.deepEqual(body.rows, [{ all: 'a name7s' }]);
    assert.equal(await value("SELECT current_setting('application_name')"), '');
  });

  it('ends with the password: an old one lets nobody in, however often it was right', async () => {
    await value('SELECT 1');
    await gated.postmaster.query(`ALTER ROLE ${ROLE} PASSWORD 'npg_changed'`);
    gated.directory.secrets.delete(ROLE);
    assert.equal((await post({ query: 'SELECT 1' })).body.code, '28P01');
    const changed = { 'neon-connection-string': url({ password: 'npg_changed' }) };
    assert.equal((await post({ query: 'SELECT 1' }, changed)).status, 200);
    await gated.postmaster.query(`ALTER ROLE ${ROLE} PASSWORD '${PASSWORD}'`);
    gated.directory.secrets.delete(ROLE);
    assert.equal((await post({ query: 'SELECT 1' })).status, 200);
  });
});

describe('a request that nobody waits for any more', () => {
  it('is cancelled', async () => {
    const gone = new AbortController();
    const asked = neon(url(), { fetchOptions: { signal: gone.signal } })`SELECT pg_sleep(600) /* abandoned */`;
    const activity = "SELECT state FROM pg_stat_activity WHERE query LIKE '%600) /* abandoned */'";
    const running = async () => (await gated.postmaster.query(activity)).rows[0]?.state === 'active';
    const failed = assert.rejects(asked, /Error connecting to database/);
    await until(running, { what: 'the query to run' });
    gone.abort();
    await failed;
    await until(async () => !(await running()), { what: 'the query to be cancelled' });
  });

  it('wakes no compute that has gone to sleep meanwhile', async () => {
    await gated.postmaster.stop();
    const { dial, wakes } = gated.waker;
    const dialled = Promise.withResolvers<void>();
    const answered = Promise.withResolvers<undefined>();
    gated.waker.dial = () => {
      dialled.resolve();
      return answered.promise;
    };
    const gone = new AbortController();
    // With a setting of its own, so that no connection is there.
    const sql = neon(url({ more: '&statement_timeout=4321' }), { fetchOptions: { signal: gone.signal } });
    const failed = assert.rejects(sql`SELECT 1`);
    await dialled.promise;
    gone.abort();
    await failed;
    await until(() => gated.gateway.sessionCount(ENDPOINT) === 0, { what: 'the request to be given up' });
    gated.waker.dial = dial;
    answered.resolve(undefined);
    await new Promise(setImmediate);
    assert.equal(gated.waker.wakes, wakes);
  });

  it('is given up while its compute wakes', async () => {
    await gated.postmaster.stop();
    const { onWake } = gated.waker;
    const waking = Promise.withResolvers<void>();
    const allowed = Promise.withResolvers<void>();
    gated.waker.onWake = async (signal) => {
      waking.resolve();
      await allowed.promise;
      await onWake(signal);
    };
    const gone = new AbortController();
    const failed = assert.rejects(neon(url(), { fetchOptions: { signal: gone.signal } })`SELECT 1`);
    await waking.promise;
    gone.abort();
    await failed;
    await until(() => gated.gateway.sessionCount(ENDPOINT) === 0, { what: 'the request to be given up' });
    gated.waker.onWake = onWake;
    allowed.resolve();
    assert.equal(await value('SELECT 1'), 1);
  });
});

describe('a server that goes away in the middle', () => {
  it('is told in its own words, and the next request has another', async () => {
    const { status, body } = await post({ query: 'SELECT pg_terminate_backend(pg_backend_pid())' });
    assert.deepEqual([status, body.code, body.severity], [400, '57P01', 'FATAL']);
    assert.equal(await value('SELECT 1'), 1);
  });

  it('before it has read the request is not missed', async () => {
    const { dial } = gated.waker;
    const sockets: Socket[] = [];
    gated.waker.dial = async (id) => {
      const socket = (await dial(id)) as Socket | undefined;
      if (socket) sockets.push(socket);
      return socket;
    };
    // With a setting of its own, so that few connections are there.
    const own = { 'neon-connection-string': url({ more: '&statement_timeout=0' }) };
    const ask = async () => (await post({ query: 'SELECT pg_backend_pid() AS pid' }, own)).body.rows?.[0].pid;
    let pid: number = await ask();
    const isSame = async () => {
      const before = pid;
      pid = await ask();
      return pid === before;
    };
    await until(isSame, { what: 'one connection to be used again' });
    const sent = () => sockets.reduce((total, { bytesWritten }) => total + bytesWritten, 0);
    const before = sent();
    // Stopped, it ends only when it goes on, and the request is there by then.
    process.kill(pid, 'SIGSTOP');
    await gated.postmaster.query(`SELECT pg_terminate_backend(${pid})`);
    const asked = ask();
    await until(() => sent() > before, { what: 'the request to be sent' });
    process.kill(pid, 'SIGCONT');
    const other = await asked;
    gated.waker.dial = dial;
    assert.ok(other > 0 && other !== pid);
  });

  it('while it is not used is not missed', async () => {
    const pid = await value('SELECT pg_backend_pid()');
    await gated.postmaster.query(`SELECT pg_terminate_backend(${pid})`);
    const alive = async () =>
      (await gated.postmaster.query(`SELECT FROM pg_stat_activity WHERE pid = ${pid}`)).rows.length;
    await until(async () => (await alive()) === 0, { what: 'the process to end' });
    assert.equal(await value('SELECT 1'), 1);
  });
});
