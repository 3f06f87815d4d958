import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { after, afterEach, before, beforeEach, describe, it } from 'node:test';
import { promisify } from 'node:util';
import type pg from 'pg';
import copy from 'pg-copy-streams';
import { parseBackendKeyData } from '../../src/wire/backend-messages.ts';
import { cancelRequest, query } from '../../src/wire/frontend-messages.ts';
import { cstring, message } from '../../src/wire/message.ts';
import {
  answer,
  ask,
  bind,
  close,
  describeStatement,
  EXECUTE,
  FLUSH,
  NOTHING,
  parse,
  SYNC,
} from '../support/conversation.ts';
import { ENDPOINT, type GatedPostgres, openGatedPostgres, PASSWORD, ROLE } from '../support/gated-postgres.ts';
import { until } from '../support/until.ts';
import { logIn, openWire, type WireClient } from '../support/wire-client.ts';

const run = promisify(execFile);

let gated: GatedPostgres;
before(async () => {
  gated = await openGatedPostgres({ limits: { half_close_timeout_ms: 500, linger_timeout_ms: 500 } });
  await setSize(1);
});
after(() => gated?.[Symbol.asyncDispose]());

/** How many server connections the pools may have, and no more than that now. */
async function setSize(pool_size: number): Promise<void> {
  gated.directory.entry = { ...gated.directory.entry, pool_size };
}
beforeEach(() => setSize(1));

/** What a test opened, so that one that fails leaves no transaction open for the others. */
const opened: (() => unknown)[] = [];
afterEach(() => {
  for (const close of opened.splice(0)) close();
});

const POOLED = `endpoint=${ENDPOINT}-pooler`;
const connect = async (config: pg.ClientConfig = {}): Promise<pg.Client> => {
  const client = await gated.connect({ options: POOLED, ...config });
  opened.push(() => client.end().catch(() => undefined));
  return client;
};

async function openPooled(parameters: Record<string, string> = {}): Promise<WireClient> {
  const wire = await openWire(gated.port);
  opened.push(() => wire.close());
  await logIn(wire, { user: ROLE, database: 'neondb', options: POOLED, ...parameters }, PASSWORD);
  await wire.until('Z');
  return wire;
}

const pidOf = async (client: pg.Client): Promise<number> =>
  (await client.query('SELECT pg_backend_pid() AS pid')).rows[0].pid;

const backends = async (): Promise<number> => {
  const { rows } = await gated.postmaster.query(
    `SELECT count(*)::int AS count FROM pg_stat_activity WHERE usename = '${ROLE}'`,
  );
  return rows[0].count;
};

describe('a pooled host', () => {
  it('serves many clients on few server connections', async () => {
    await setSize(3);
    const clients = await Promise.all(Array.from({ length: 30 }, () => connect()));
    const pids = new Set<number>();
    for (let round = 0; round < 5; round++) {
      for (const pid of await Promise.all(clients.map(pidOf))) pids.add(pid);
    }
    assert.ok(pids.size <= 3, `${pids.size} server connections`);
    assert.equal(gated.gateway.sessionCount(ENDPOINT), 30);
    await Promise.all(clients.map((client) => client.end()));
  });

  it('keeps a server connection for a transaction, and only so long', async () => {
    const [one, other] = [await connect(), await connect()];
    await one.query('BEGIN');
    const pid = await pidOf(one);
    let answered = false;
    const waiting = pidOf(other).finally(() => {
      answered = true;
    });
    assert.equal(await pidOf(one), pid);
    assert.equal(answered, false);
    await one.query('COMMIT');
    assert.equal(await waiting, pid);
    await Promise.all([one.end(), other.end()]);
  });

  it('works with psql and with pgbench in its three protocols', async () => {
    await setSize(4);
    const url = `postgresql://${ROLE}@127.0.0.1:${gated.port}/neondb?options=endpoint%3D${ENDPOINT}-pooler`;
    assert.equal(await gated.psql(url, 'SELECT 40 + 2'), '42');
    const env = { PATH: process.env.PATH, PGPASSWORD: PASSWORD };
    const bench = (...words: string[]) => run('pgbench', [...words, url], { env, timeout: 60_000 });
    await bench('-i', '-s', '1', '-q');
    for (const protocol of ['simple', 'extended', 'prepared']) {
      // Its one thread waits for each statement that it prepares, so nobody else may be in a transaction meanwhile.
      const script = protocol === 'prepared' ? ['-S'] : [];
      const { stdout } = await bench('-n', '-M', protocol, '-c', '12', '-t', '20', ...script);
      assert.match(stdout, /number of failed transactions: 0/);
      assert.match(stdout, /240\/240/);
    }
  });

  it('serves clients over TLS and over streams', async () => {
    const ssl = { ca: gated.authority_pem, servername: `${ENDPOINT}-pooler.localhost` };
    const port = (await gated.openGateway({ raw_splice: false })).addresses[0]!.port;
    for (const config of [{ ssl }, { port }, { ssl, port }]) {
      const client = await connect({ ...config, ...('ssl' in config ? { options: undefined } : {}) });
      const { rows } = await client.query("SELECT repeat('x', 300000) AS text");
      assert.equal(rows[0].text.length, 300_000);
      assert.equal((await client.query('SELECT length($1) AS n', ['y'.repeat(300_000)])).rows[0].n, 300_000);
      await client.end();
    }
  });

  it('refuses replication, and LISTEN in every protocol, with a hint', async () => {
    const wire = await openWire(gated.port);
    const parameters = { user: ROLE, database: 'neondb', options: POOLED, replication: 'database' };
    await assert.rejects(logIn(wire, parameters, PASSWORD), /Replication is not available on pooled hosts/);
    const client = await connect();
    for (const text of ['LISTEN news', 'SELECT 1; listen news']) {
      await assert.rejects(client.query(text), { code: '0A000', message: 'LISTEN is not available on pooled hosts' });
    }
    await assert.rejects(client.query({ text: 'LISTEN news', name: 'l' }), { code: '0A000', hint: /direct host/ });
    await assert.rejects(client.query({ text: 'LISTEN news', values: [], queryMode: 'extended' } as pg.QueryConfig), {
      code: '0A000',
    });
    assert.equal((await client.query('SELECT 1 AS one')).rows[0].one, 1);
    await client.end();
  });

  it('tells a client that waits, and then refuses it', async () => {
    const gateway = await gated.openGateway({ limits: { pool_wait_notice_ms: 20, pool_wait_timeout_ms: 3000 } });
    const { port } = gateway.addresses[0]!;
    const [one, other] = [await connect({ port }), await connect({ port })];
    await one.query('BEGIN');
    const notices: string[] = [];
    other.on('notice', ({ message: text }) => void notices.push(text ?? ''));
    await assert.rejects(other.query('SELECT 1'), { code: '53300', message: /became free within/ });
    assert.deepEqual(notices, ['waiting for a free connection of the pool']);
    await one.query('COMMIT');
    await one.end();
  });

  it('closes server connections that nobody uses', async () => {
    const gateway = await gated.openGateway({ limits: { pool_server_idle_ms: 50 } });
    const client = await connect({ port: gateway.addresses[0]!.port, application_name: 'rests' });
    const pid = await pidOf(client);
    const gone = async () => {
      const { rows } = await gated.postmaster.query(`SELECT 1 FROM pg_stat_activity WHERE pid = ${pid}`);
      return rows.length === 0;
    };
    await until(gone, { what: 'the idle connection to be closed' });
    assert.notEqual(await pidOf(client), pid);
    await client.end();
  });
});

describe('the pools of an endpoint', () => {
  it('share its connections between databases and roles', async () => {
    await gated.postmaster.query('CREATE DATABASE other');
    const [here, there] = [await connect(), await connect({ database: 'other' })];
    for (let round = 0; round < 3; round++) {
      await Promise.all([here.query('SELECT 1'), there.query('SELECT 1'), here.query('SELECT 2')]);
    }
    await Promise.all([here.end(), there.end()]);
    await gated.postmaster.query('DROP DATABASE other WITH (FORCE)');
  });

  it('are other ones after a change of the password', async () => {
    await gated.postmaster.query("CREATE ROLE changing LOGIN PASSWORD 'before-the-change'");
    const login = { user: 'changing', password: 'before-the-change' };
    const old = await connect(login);
    const pid = await pidOf(old);
    await gated.postmaster.query("ALTER ROLE changing PASSWORD 'after-the-change'");
    gated.directory.secrets.delete('changing');
    const fresh = await connect({ ...login, password: 'after-the-change' });
    assert.notEqual(await pidOf(fresh), pid);
    await fresh.end();
    await old.end();
  });

  it('carry start-up parameters: own ones by replay, others by pools of their own', async () => {
    await setSize(4);
    const show = async (client: pg.Client, name: string) =>
      (await client.query(`SELECT current_setting('${name}') AS value`)).rows[0].value;
    const berlin = await connect({ application_name: 'berlin', options: `${POOLED} -c TimeZone=Europe/Berlin` });
    const plain = await connect({ application_name: "it's \\ plain" });
    const path = await connect({ options: `${POOLED} -c search_path=pg_catalog` });
    for (let round = 0; round < 3; round++) {
      assert.equal(await show(berlin, 'TimeZone'), 'Europe/Berlin');
      assert.equal(await show(berlin, 'application_name'), 'berlin');
      assert.equal(await show(plain, 'application_name'), "it's \\ plain");
      assert.notEqual(await show(plain, 'TimeZone'), 'Europe/Berlin');
      assert.equal(await show(path, 'search_path'), 'pg_catalog');
    }
    await Promise.all([berlin, plain, path].map((client) => client.end()));
    const wire = await openPooled({ TimeZone: 'europe/berlin', DateStyle: 'German' });
    const other = await openPooled();
    assert.deepEqual(await ask(other, query('SHOW TimeZone')), ['T', `D${(await zone()) ?? ''}`, 'C', 'ZI']);
    assert.deepEqual(await ask(wire, query('SHOW TimeZone')), ['T', 'DEurope/Berlin', 'C', 'ZI']);
    wire.send(query("SET DateStyle = 'SQL, DMY'"));
    await wire.until('Z');
    await ask(other, query('SELECT 1'));
    assert.deepEqual(await ask(wire, query('SHOW DateStyle')), ['T', 'DSQL, DMY', 'C', 'ZI']);
    wire.close();
    other.close();
    const bad = await openWire(gated.port);
    const parameters = { user: ROLE, database: 'neondb', options: POOLED, TimeZone: 'Nowhere/Land' };
    await logIn(bad, parameters, PASSWORD);
    await assert.rejects(bad.until('Z'), /invalid value for parameter "TimeZone"/);
  });

  const zone = async () => (await gated.postmaster.query('SHOW TimeZone', 'neondb')).rows[0].TimeZone;
});

describe('prepared statements of pooled clients', () => {
  it('of the same name with other texts stay apart', async () => {
    const clients = await Promise.all([connect(), connect(), connect()]);
    for (let round = 0; round < 4; round++) {
      for (const [index, client] of clients.entries()) {
        const { rows } = await client.query({ name: 'same', text: `SELECT ${index} + $1::int AS n`, values: [round] });
        assert.deepEqual(rows, [{ n: index + round }]);
      }
    }
    await Promise.all(clients.map((client) => client.end()));
  });

  it('of the same text are one on the server, but not with other types', async () => {
    const [one, other, third] = [await openPooled(), await openPooled(), await openPooled()];
    const text = 'SELECT pg_typeof($1)';
    assert.deepEqual(await ask(one, parse('a', text, [23]), SYNC), ['1', 'ZI']);
    assert.deepEqual(await ask(other, parse('b', text, [23]), SYNC), ['1', 'ZI']);
    assert.deepEqual(await ask(third, parse('a', text, [25]), SYNC), ['1', 'ZI']);
    assert.deepEqual(await ask(one, bind('a', ['1']), EXECUTE, SYNC), ['2', 'Dinteger', 'C', 'ZI']);
    assert.deepEqual(await ask(other, bind('b', ['1']), EXECUTE, SYNC), ['2', 'Dinteger', 'C', 'ZI']);
    assert.deepEqual(await ask(third, bind('a', ['1']), EXECUTE, SYNC), ['2', 'Dtext', 'C', 'ZI']);
    const prepared = 'SELECT count(*) FROM pg_prepared_statements WHERE statement = $$SELECT pg_typeof($1)$$';
    assert.deepEqual(await ask(one, query(prepared)), ['T', 'D2', 'C', 'ZI']);
    for (const wire of [one, other, third]) wire.close();
  });

  it('are described, closed and made again', async () => {
    const wire = await openPooled();
    assert.deepEqual(await ask(wire, parse('s', 'SELECT 1'), SYNC), ['1', 'ZI']);
    assert.deepEqual(await ask(wire, describeStatement('s'), SYNC), ['t', 'T', 'ZI']);
    assert.deepEqual(await ask(wire, parse('s', 'SELECT 2'), SYNC), ['E42P05', 'ZI']);
    assert.deepEqual(await ask(wire, close('s'), parse('s', 'SELECT 2'), bind('s'), EXECUTE, SYNC), [
      '3',
      '1',
      '2',
      'D2',
      'C',
      'ZI',
    ]);
    assert.deepEqual(await ask(wire, close('s'), SYNC), ['3', 'ZI']);
    assert.deepEqual(await ask(wire, bind('s'), EXECUTE, SYNC), ['E26000', 'ZI']);
    assert.deepEqual(await ask(wire, close('never'), SYNC), ['3', 'ZI']);
    wire.close();
  });

  it('that failed are not there, nor what follows them up to Sync', async () => {
    const wire = await openPooled();
    assert.deepEqual(await ask(wire, parse('bad', 'SELEKT'), parse('next', 'SELECT 1'), SYNC), ['E42601', 'ZI']);
    assert.deepEqual(await ask(wire, bind('bad'), SYNC), ['E26000', 'ZI']);
    assert.deepEqual(await ask(wire, bind('next'), SYNC), ['E26000', 'ZI']);
    assert.deepEqual(await ask(wire, parse('bad', 'SELECT 5'), bind('bad'), EXECUTE, SYNC), [
      '1',
      '2',
      'D5',
      'C',
      'ZI',
    ]);
    assert.deepEqual(await ask(wire, parse('k', 'SELECT 6'), SYNC), ['1', 'ZI']);
    assert.deepEqual(await ask(wire, bind('missing'), close('k'), SYNC), ['E26000', 'ZI']);
    assert.deepEqual(await ask(wire, bind('k'), EXECUTE, SYNC), ['2', 'D6', 'C', 'ZI'], 'a close that was skipped');
    wire.close();
  });

  it('without a name belong to their client over transactions', async () => {
    const [one, other] = [await openPooled(), await openPooled()];
    assert.deepEqual(await ask(one, parse('', 'SELECT 1'), SYNC), ['1', 'ZI']);
    assert.deepEqual(await ask(other, bind(''), EXECUTE, SYNC), ['E26000', 'ZI'], "not another's");
    assert.deepEqual(await ask(other, parse('', 'SELECT 2'), SYNC), ['1', 'ZI']);
    assert.deepEqual(await ask(one, bind(''), EXECUTE, SYNC), ['2', 'D1', 'C', 'ZI']);
    assert.deepEqual(await ask(other, bind(''), EXECUTE, SYNC), ['2', 'D2', 'C', 'ZI']);
    one.close();
    other.close();
  });

  it('are dropped by DEALLOCATE and DISCARD, in the order of what was sent', async () => {
    const wire = await openPooled();
    for (const text of ['DEALLOCATE ALL', 'DISCARD ALL', 'deallocate prepare all']) {
      assert.deepEqual(await ask(wire, parse('s', 'SELECT 1'), parse('t', 'SELECT 3'), SYNC), ['1', '1', 'ZI']);
      wire.send(query(text), parse('s', 'SELECT 1'), bind('s'), EXECUTE, SYNC);
      assert.deepEqual(await answer(wire), ['C', 'ZI']);
      assert.deepEqual(await answer(wire), ['1', '2', 'D1', 'C', 'ZI']);
      assert.deepEqual(await ask(wire, bind('s'), EXECUTE, SYNC), ['2', 'D1', 'C', 'ZI']);
      assert.deepEqual(await ask(wire, bind('t'), EXECUTE, SYNC), ['E26000', 'ZI']);
      await ask(wire, close('s'), SYNC);
    }
    await ask(wire, parse('Mixed', 'SELECT 4'), SYNC);
    assert.deepEqual(await ask(wire, query('DEALLOCATE "Mixed"')), ['C', 'ZI']);
    assert.deepEqual(await ask(wire, bind('Mixed'), SYNC), ['E26000', 'ZI']);
    await ask(wire, parse('p', 'SELECT 4'), SYNC);
    assert.deepEqual(await ask(wire, parse('', 'DEALLOCATE p'), bind(''), EXECUTE, SYNC), ['1', '2', 'C', 'ZI']);
    assert.deepEqual(await ask(wire, query('DEALLOCATE p')), ['E26000', 'ZI']);
    wire.close();
  });

  it('come back after the server connection was cleaned or has changed', async () => {
    const wire = await openPooled();
    await ask(wire, parse('s', 'SELECT 1'), SYNC);
    await ask(wire, query('PREPARE x AS SELECT 2; SELECT set_config($$a.b$$, $$c$$, false)'));
    assert.deepEqual(await ask(wire, bind('s'), EXECUTE, SYNC), ['2', 'D1', 'C', 'ZI']);
    await gated.postmaster.query(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '${ROLE}'`);
    await until(async () => (await backends()) === 0, { what: 'the connection to end' });
    assert.deepEqual(await ask(wire, bind('s'), EXECUTE, SYNC), ['2', 'D1', 'C', 'ZI']);
    wire.close();
  });

  it('are more than a server connection keeps', async () => {
    const wire = await openPooled();
    const count = 1100;
    for (let from = 0; from < count; from += 100) {
      const parts = Array.from({ length: 100 }, (_, index) => parse(`s${from + index}`, `SELECT ${from + index}`));
      const seen = await ask(wire, ...parts, SYNC);
      assert.deepEqual(new Set(seen), new Set(['1', 'ZI']));
    }
    for (const index of [0, 1099, 500]) {
      assert.deepEqual(await ask(wire, bind(`s${index}`), EXECUTE, SYNC), ['2', `D${index}`, 'C', 'ZI']);
    }
    const { rows } = await gated.postmaster.query('SELECT sum(total_bytes) > 0 AS any FROM pg_backend_memory_contexts');
    assert.equal(rows[0].any, true);
    assert.deepEqual((await ask(wire, query('SELECT count(*) FROM pg_prepared_statements')))[1], 'D1000');
    wire.close();
  });
});

describe('a conversation with a pool', () => {
  it('may be pipelined', async () => {
    const [one, other] = [await openPooled(), await openPooled()];
    one.send(
      query('SELECT 1'),
      query('BEGIN'),
      query('SELECT 2'),
      query('COMMIT'),
      parse('', 'SELECT 3'),
      bind(''),
      EXECUTE,
      SYNC,
    );
    other.send(query('SELECT 4'));
    const expected = [
      ['T', 'D1', 'C', 'ZI'],
      ['C', 'ZT'],
      ['T', 'D2', 'C', 'ZT'],
      ['C', 'ZI'],
      ['1', '2', 'D3', 'C', 'ZI'],
    ];
    for (const messages of expected) assert.deepEqual(await answer(one), messages);
    assert.deepEqual(await answer(other), ['T', 'D4', 'C', 'ZI']);
    one.close();
    other.close();
  });

  it('may wait between Flush and Sync with its server connection', async () => {
    const [one, other] = [await openPooled(), await openPooled()];
    one.send(parse('', 'SELECT 7'), FLUSH);
    await one.until('1');
    other.send(query('SELECT 8'));
    one.send(bind(''), EXECUTE, FLUSH);
    await one.until('C');
    assert.deepEqual(await ask(one, SYNC), ['ZI']);
    assert.deepEqual(await answer(other), ['T', 'D8', 'C', 'ZI']);
    assert.deepEqual(await ask(one, parse('', 'SELECT 9'), bind(''), EXECUTE, SYNC, FLUSH), [
      '1',
      '2',
      'D9',
      'C',
      'ZI',
    ]);
    assert.deepEqual(await ask(other, query('SELECT 10')), ['T', 'D10', 'C', 'ZI'], 'a Flush of nothing holds nothing');
    one.close();
    other.close();
  });

  it('may come byte by byte', async () => {
    const wire = await openPooled();
    const bytes = Buffer.concat([parse('n', 'SELECT $1::text'), bind('n', ['abc']), EXECUTE, SYNC, query('SELECT 2')]);
    for (const byte of bytes) wire.send(Buffer.from([byte]));
    assert.deepEqual(await answer(wire), ['1', '2', 'Dabc', 'C', 'ZI']);
    assert.deepEqual(await answer(wire), ['T', 'D2', 'C', 'ZI']);
    wire.close();
  });

  it('may copy both ways, and fail in it, by either protocol', async () => {
    const client = await connect();
    await client.query('CREATE TABLE copied (i int, text text)');
    const lines = Array.from({ length: 20_000 }, (_, index) => `${index}\t${'z'.repeat(50)}\n`);
    await pipeline(Readable.from(lines), client.query(copy.from('COPY copied FROM STDIN')));
    let bytes = 0;
    for await (const chunk of client.query(copy.to('COPY copied TO STDOUT'))) bytes += chunk.length;
    assert.equal(bytes, lines.join('').length);
    const bad = pipeline(Readable.from(['x\ty\n', ...lines]), client.query(copy.from('COPY copied FROM STDIN')));
    await assert.rejects(bad, { code: '22P02' });
    assert.equal((await client.query('SELECT count(*)::int AS n FROM copied')).rows[0].n, 20_000);
    await client.end();
    const wire = await openPooled();
    const data = message('d', Buffer.from('1\tone\n'));
    const done = message('c', NOTHING);
    const into = 'COPY copied FROM STDIN';
    assert.deepEqual(await ask(wire, parse('', into), bind(''), EXECUTE, data, done, SYNC), ['1', '2', 'G', 'C', 'ZI']);
    wire.send(parse('', into), bind(''), EXECUTE, SYNC);
    await wire.until('G');
    assert.deepEqual(await ask(wire, data, done, SYNC), ['C', 'ZI']);
    assert.deepEqual(await ask(wire, query(into), data, message('f', cstring('no'))), ['G', 'E57014', 'ZI']);
    assert.deepEqual(
      await ask(wire, data, done, data, query('SELECT 1')),
      ['T', 'D1', 'C', 'ZI'],
      'late data is nothing',
    );
    const other = await openPooled();
    assert.deepEqual(await ask(other, query('SELECT 2')), ['T', 'D2', 'C', 'ZI']);
    assert.deepEqual(await ask(other, query('DROP TABLE copied')), ['C', 'ZI']);
    wire.close();
    other.close();
  });

  it('ends with an error for what is no message, and hurts nobody else', async () => {
    const [wire, other] = [await openPooled(), await openPooled()];
    assert.deepEqual(await ask(wire, Buffer.from('?\0\0\0\x04')), ['E08P01', 'closed']);
    const second = await openPooled();
    assert.deepEqual(await ask(second, query('BEGIN')), ['C', 'ZT']);
    assert.deepEqual(await ask(second, Buffer.from('Q\0\0\0\x01')), ['E08P01', 'closed']);
    assert.deepEqual(await ask(other, query('SELECT 1')), ['T', 'D1', 'C', 'ZI']);
    other.close();
  });

  it('takes a simple query behind what was only prepared, and none that the server may ignore', async () => {
    const wire = await openPooled();
    wire.send(parse('ahead', 'SELECT 7'), FLUSH);
    await wire.until('1');
    assert.deepEqual(await ask(wire, query('SELECT 1')), ['T', 'D1', 'C', 'ZI']);
    wire.send(bind('ahead'), query('SELECT 1'));
    await assert.rejects(wire.until('Z'), /before the Sync/);
  });
});

describe('a cancel request of a pooled client', () => {
  it('ends its query, and never that of another', async () => {
    await setSize(2);
    const openWithKey = async () => {
      const wire = await openWire(gated.port);
      await logIn(wire, { user: ROLE, database: 'neondb', options: POOLED }, PASSWORD);
      const greeting = await wire.until('Z');
      return { wire, key: parseBackendKeyData(greeting.find(({ letter }) => letter === 'K')!)! };
    };
    const cancel = async (key: Parameters<typeof cancelRequest>[0]) => {
      const socket = await openWire(gated.port);
      socket.send(cancelRequest(key));
      await socket.rest();
    };
    const [one, other] = [await openWithKey(), await openWithKey()];
    const sleeping = async () => {
      const { rows } = await gated.postmaster.query("SELECT 1 FROM pg_stat_activity WHERE wait_event = 'PgSleep'");
      return rows.length;
    };
    one.wire.send(query('SELECT pg_sleep(600)'));
    await until(async () => (await sleeping()) === 1, { what: 'the query to run' });
    await cancel(other.key);
    assert.equal(await sleeping(), 1, 'a client that does nothing cancels nothing');
    await cancel(one.key);
    assert.deepEqual(await answer(one.wire), ['T', 'E57014', 'ZI']);
    for (let round = 0; round < 20; round++) {
      const cancelled = Promise.all([cancel(one.key), cancel(one.key)]);
      assert.deepEqual((await ask(other.wire, query('SELECT pg_sleep(0.005)'))).at(-2), 'C');
      await cancelled;
    }
    one.wire.close();
    other.wire.close();
  });
});
