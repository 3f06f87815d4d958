import assert from 'node:assert/strict';
import { once } from 'node:events';
import { after, afterEach, before, beforeEach, describe, it } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import pg from 'pg';
import { query } from '../../src/wire/frontend-messages.ts';
import { message } from '../../src/wire/message.ts';
import { answer, ask, bind, EXECUTE, FLUSH, parse, SYNC } from '../support/conversation.ts';
import { ENDPOINT, type GatedPostgres, openGatedPostgres, PASSWORD, ROLE } from '../support/gated-postgres.ts';
import { heldBytes } from '../support/held-bytes.ts';
import { seededRandom, testSeed } from '../support/random.ts';
import { until } from '../support/until.ts';
import { logIn, openDirectTls, openWire, type WireClient } from '../support/wire-client.ts';

const POOLED = `endpoint=${ENDPOINT}-pooler`;
const LONG_MODE = process.env.COPPICE_TEST_LONG === '1';

let gated: GatedPostgres;
before(async () => {
  gated = await openGatedPostgres({ limits: { half_close_timeout_ms: 500, linger_timeout_ms: 500 } });
});
after(() => gated?.[Symbol.asyncDispose]());

const setSize = (pool_size: number) => {
  gated.directory.entry = { ...gated.directory.entry, pool_size };
};
beforeEach(() => setSize(1));

const opened: (() => unknown)[] = [];
afterEach(() => {
  for (const close of opened.splice(0)) close();
});

const connect = async (config: pg.ClientConfig = {}): Promise<pg.Client> => {
  const client = await gated.connect({ options: POOLED, ...config });
  opened.push(() => client.end().catch(() => undefined));
  return client;
};

async function openPooled({ port = gated.port, allowHalfOpen = false } = {}): Promise<WireClient> {
  const wire = await openWire(port, { allowHalfOpen });
  opened.push(() => wire.close());
  await logIn(wire, { user: ROLE, database: 'neondb', options: POOLED }, PASSWORD);
  await wire.until('Z');
  return wire;
}

const terminate = (which = '') =>
  gated.postmaster.query(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '${ROLE}' ${which}`);
const one = async (client: pg.Client, sql: string) => Object.values((await client.query(sql)).rows[0])[0];

/** What each kind of leaving something behind looks like to the next client. */
const TRACES: Record<string, { leave: string; look: string; clean: unknown }> = {
  'a setting': { leave: "SET search_path = 'left'", look: 'SHOW search_path', clean: '"$user", public' },
  'a setting by a function': {
    leave: "SELECT set_config('search_path', 'left', false)",
    look: 'SHOW search_path',
    clean: '"$user", public',
  },
  'a role': { leave: 'SET ROLE pg_monitor', look: 'SELECT current_user', clean: ROLE },
  'a temporary table': {
    leave: 'CREATE TEMP TABLE left_behind ()',
    look: "SELECT to_regclass('left_behind')",
    clean: null,
  },
  'a temporary table of a query': {
    leave: 'SELECT 1 AS a INTO TEMP left_behind',
    look: "SELECT to_regclass('left_behind')",
    clean: null,
  },
  'an advisory lock': {
    leave: 'SELECT pg_advisory_lock(42)',
    look: "SELECT count(*)::int FROM pg_locks WHERE locktype = 'advisory'",
    clean: 0,
  },
  'a prepared statement': {
    leave: 'PREPARE left_behind AS SELECT 1',
    look: 'SELECT count(*)::int FROM pg_prepared_statements WHERE from_sql',
    clean: 0,
  },
  'a cursor': {
    leave: 'DECLARE left_behind CURSOR WITH HOLD FOR SELECT 1',
    look: 'SELECT count(*)::int FROM pg_cursors WHERE is_holdable',
    clean: 0,
  },
  'notifications by a function': {
    leave: "DO $$ BEGIN EXECUTE 'LISTEN left_behind'; END $$",
    look: 'SELECT count(*)::int FROM pg_listening_channels()',
    clean: 0,
  },
  'a trigger that sets something': {
    leave: 'UPDATE traced SET a = a + 1',
    look: "SELECT coalesce(current_setting('trace.left', true), '')",
    clean: '',
  },
  'a view that locks': {
    leave: 'SELECT * FROM locking',
    look: "SELECT count(*)::int FROM pg_locks WHERE locktype = 'advisory'",
    clean: 0,
  },
};

describe('the session that a pooled client leaves', () => {
  before(async () => {
    const client = await gated.connect();
    await client.query(`
      CREATE TABLE traced (a int);
      INSERT INTO traced VALUES (1);
      CREATE VIEW locking AS SELECT pg_try_advisory_lock(7) AS locked;
      CREATE FUNCTION trace() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN PERFORM set_config('trace.left', 'x', false); RETURN NEW; END $$;
      CREATE TRIGGER trace BEFORE UPDATE ON traced FOR EACH ROW EXECUTE FUNCTION trace();`);
    await client.end();
  });

  for (const [name, { leave, look, clean }] of Object.entries(TRACES)) {
    for (const way of ['alone', 'in a transaction', 'prepared']) {
      it(`has nothing of ${name} for the next, left ${way}`, async () => {
        const [leaver, next] = [await connect(), await connect()];
        const pid = await one(leaver, 'SELECT pg_backend_pid()');
        if (way === 'in a transaction') await leaver.query('BEGIN');
        await leaver.query(way === 'prepared' ? { name: 'leave', text: leave, values: [] } : leave);
        if (way === 'in a transaction') await leaver.query('COMMIT');
        assert.deepEqual(await one(next, look), clean);
        assert.equal(await one(next, 'SELECT pg_backend_pid()'), pid, 'on the same connection');
        await Promise.all([leaver.end(), next.end()]);
      });
    }
  }

  it('has no values of sequences for the next', async () => {
    const [leaver, next] = [await connect(), await connect()];
    await leaver.query('CREATE TABLE counted (id serial, a int); INSERT INTO counted (a) VALUES (1)');
    await leaver.query('INSERT INTO counted (a) VALUES (2)');
    await assert.rejects(next.query('SELECT lastval()'), { code: '55000' });
    await Promise.all([leaver.end(), next.end()]);
  });

  it('ends where nothing cleans it', async () => {
    const [leaver, next] = [await connect(), await connect()];
    const pid = await one(leaver, 'SELECT pg_backend_pid()');
    await leaver.query('SELECT setseed(0.5)');
    assert.notEqual(await one(next, 'SELECT pg_backend_pid()'), pid);
    await Promise.all([leaver.end(), next.end()]);
  });
});

describe('many clients of a few server connections', () => {
  it('never see anything of each other', async (t) => {
    setSize(10);
    const seed = testSeed();
    t.diagnostic(`seed ${seed}`);
    const count = 200;
    const clients = await Promise.all(Array.from({ length: count }, () => connect()));
    const ends = performance.now() + (LONG_MODE ? 60_000 : 3_000);
    let rounds = 0;
    const tag = async (client: pg.Client, index: number) => {
      const random = seededRandom(seed + index);
      do {
        const kind = Math.floor(random() * 5);
        const name = `tag-${index}`;
        if (kind === 0) {
          await client.query(`SET trace.tag = '${name}'`);
          assert.equal(await one(client, "SELECT coalesce(current_setting('trace.tag', true), '')"), '');
        } else if (kind === 1) {
          await client.query('BEGIN; CREATE TEMP TABLE tagged (name text)');
          await client.query(`INSERT INTO tagged VALUES ('${name}')`);
          assert.equal(await one(client, 'SELECT name FROM tagged'), name);
          await client.query('COMMIT');
        } else if (kind === 2) {
          const { rows } = await client.query({ name: 'tag', text: `SELECT '${name}' || $1 AS name`, values: ['!'] });
          assert.equal(rows[0].name, `${name}!`);
        } else if (kind === 3) {
          assert.equal(await one(client, `SELECT pg_try_advisory_lock(${index})`), true, 'nobody else holds it');
        } else {
          await client.query(`BEGIN; SET LOCAL application_name = '${name}'`);
          assert.equal(await one(client, 'SHOW application_name'), name);
          await client.query('ROLLBACK');
        }
        rounds++;
      } while (performance.now() < ends);
    };
    await Promise.all(clients.map(tag));
    assert.ok(rounds >= count);
    await Promise.all(clients.map((client) => client.end()));
  });

  it('are not hurt by one that sends anything at all', async (t) => {
    setSize(2);
    const seed = testSeed();
    t.diagnostic(`seed ${seed}`);
    const random = seededRandom(seed);
    const upTo = (bound: number) => Math.floor(random() * bound);
    const named = [parse('f', 'SELECT $1::text'), bind('f', ['x']), EXECUTE, SYNC];
    const copying = [
      query('COPY (SELECT 1) TO STDOUT'),
      query('COPY fuzzed FROM STDIN'),
      message('c', Buffer.alloc(0)),
    ];
    const usual = [query('BEGIN'), query('SELECT 1'), FLUSH, message('d', Buffer.from('1\n')), ...named, ...copying];
    const careful = await connect();
    await careful.query('CREATE TABLE fuzzed (a int)');
    for (let round = 0; round < (LONG_MODE ? 2000 : 60); round++) {
      const wire = await openPooled();
      const bytes = Buffer.concat(Array.from({ length: 1 + upTo(12) }, () => usual[upTo(usual.length)]!));
      for (let change = upTo(3); change > 0; change--) bytes[upTo(bytes.length)] = upTo(256);
      for (let at = 0; at < bytes.length; ) {
        const part = bytes.subarray(at, at + 1 + upTo(40));
        wire.send(part);
        at += part.length;
      }
      // Some leave in the middle, the others once they are answered or have been shown the door.
      if (round % 3 > 0) wire.send(message('X', Buffer.alloc(0)));
      wire.stream.end();
      if (round % 3 === 2) await wire.rest();
      wire.close();
      assert.equal(await one(careful, `SELECT ${round}`), round);
    }
    await until(() => gated.gateway.sessionCount(ENDPOINT) === 1, { what: 'the others to be gone' });
    await careful.query('DROP TABLE fuzzed');
  });

  it('share what the server lets them have, where that is less than the size of the pool', async () => {
    setSize(20);
    await gated.postmaster.query("CREATE ROLE limited LOGIN PASSWORD 'only-two' CONNECTION LIMIT 2");
    const gateway = await gated.openGateway({
      limits: { pool_wait_notice_ms: 200, pool_wait_timeout_ms: 10_000, pool_full_retry_ms: 20 },
    });
    const login = { user: 'limited', password: 'only-two', port: gateway.addresses[0]!.port };
    const clients = await Promise.all(Array.from({ length: 12 }, () => connect(login)));
    const [first, second, ...rest] = clients;
    await Promise.all([first!.query('BEGIN'), second!.query('BEGIN')]);
    const told = new Set<pg.Client>();
    for (const client of rest) client.on('notice', () => void told.add(client));
    const answers = Promise.all(rest.map((client) => client.query('SELECT 1 AS one')));
    await Promise.race([answers, until(() => told.size === rest.length, { what: 'all others to be told to wait' })]);
    assert.equal(told.size, rest.length);
    await Promise.all([first!.query('COMMIT'), second!.query('COMMIT')]);
    assert.ok((await answers).every(({ rows }) => rows[0].one === 1));
    await gated.postmaster.query('ALTER ROLE limited CONNECTION LIMIT 4');
    await Promise.all(clients.slice(0, 4).map((client) => client.query('BEGIN')));
    await Promise.all(clients.map((client) => client.end()));
  });

  it('that come all at once to a sleeping compute are one start', async () => {
    setSize(10);
    await gated.postmaster.stop('SIGQUIT');
    const { wakes } = gated.waker;
    const clients = Array.from({ length: 300 }, () => gated.client({ options: POOLED, application_name: 'storm' }));
    const asked = await Promise.all(
      clients.map(async (client) => {
        await client.connect();
        return one(client, 'SELECT 1');
      }),
    );
    assert.deepEqual(new Set(asked), new Set([1]));
    assert.ok(gated.waker.wakes - wakes < 100, `${gated.waker.wakes - wakes} wakes`);
    await Promise.all(clients.map((client) => client.end()));
  });
});

describe('a pooled client', () => {
  it('stays connected while the compute sleeps, and wakes it with its next query', async () => {
    const clients = await Promise.all([connect(), connect()]);
    await clients[0]!.query({ name: 'kept', text: 'SELECT 5 AS n' });
    const { wakes } = gated.waker;
    for (const how of ['SIGINT', 'SIGQUIT'] as const) {
      await gated.postmaster.stop(how);
      const { rows } = await clients[0]!.query({ name: 'kept', text: 'SELECT 5 AS n' });
      assert.deepEqual(rows, [{ n: 5 }]);
      assert.equal(await one(clients[1]!, 'SELECT 1'), 1);
    }
    assert.ok(gated.waker.wakes >= wakes + 2);
    await until(() => gated.gateway.sessionCount(ENDPOINT) === 2, { what: 'the clients of other tests to be gone' });
  });

  it('logs in without a wake where others are connected', async () => {
    await connect();
    await gated.postmaster.stop('SIGQUIT');
    const { wakes } = gated.waker;
    const client = await connect();
    assert.equal(gated.waker.wakes, wakes);
    assert.equal(await one(client, 'SELECT 1'), 1);
    assert.ok(gated.waker.wakes > wakes);
  });

  it('hears of a server that ends in its transaction, and nobody else does', async () => {
    setSize(2);
    const [unlucky, idle] = [await openPooled(), await openPooled()];
    assert.deepEqual(await ask(unlucky, query('BEGIN')), ['C', 'ZT']);
    await ask(idle, query('SELECT 1'));
    await terminate("AND state = 'idle in transaction'");
    assert.deepEqual(await answer(unlucky), ['E57P01', 'closed']);
    assert.deepEqual(await ask(idle, query('SELECT 2')), ['T', 'D2', 'C', 'ZI']);
  });

  it('hears of a server that is killed between Parse and Bind', async () => {
    const wire = await openPooled();
    wire.send(parse('', 'SELECT 1'), FLUSH);
    await wire.until('1');
    await gated.postmaster.stop('SIGQUIT');
    wire.send(bind(''), EXECUTE, SYNC);
    const told = await answer(wire);
    assert.deepEqual(told.slice(-2), ['E08006', 'closed']);
    assert.equal(await one(await connect(), 'SELECT 1'), 1);
  });

  it('hears of a server that is killed in the middle of a COPY', async () => {
    const client = await connect();
    await client.query('CREATE TABLE IF NOT EXISTS poured (text text)');
    const wire = await openPooled();
    wire.send(query('COPY poured FROM STDIN'));
    await wire.until('G');
    wire.send(message('d', Buffer.from('a\n')));
    await terminate();
    assert.deepEqual(await answer(wire), ['E57P01', 'closed']);
    assert.equal(await one(client, 'SELECT count(*)::int FROM poured'), 0);
  });

  it('is heard after a COPY that fails while more of it is on its way than the server has room for', async () => {
    const wire = await openPooled();
    const [, row] = await ask(wire, query('SELECT pg_backend_pid()'));
    const server = Number(row!.slice(1));
    await ask(wire, query('CREATE TABLE IF NOT EXISTS refused (n int)'));
    // Parts of what is read end where messages end: the client has sent nothing that the server could still wait for.
    const line = message('d', Buffer.from(`${'x'.repeat(1018)}\n`));
    const lines = Buffer.concat(Array.from({ length: 64 }, () => line));
    for (let round = 0; round < 5; round++) {
      wire.send(query('COPY refused FROM STDIN'));
      await wire.until('G');
      process.kill(server, 'SIGSTOP');
      try {
        while (wire.stream.writableLength < 2 ** 20) {
          wire.send(lines);
          await setImmediate();
        }
      } finally {
        process.kill(server, 'SIGCONT');
      }
      assert.deepEqual(await answer(wire), ['E22P02', 'ZI']);
      assert.deepEqual(await ask(wire, query('SELECT 1')), ['T', 'D1', 'C', 'ZI']);
    }
  });

  it('that leaves in its transaction leaves nothing', async () => {
    const client = await connect();
    await client.query('CREATE TABLE IF NOT EXISTS half (a int)');
    const wire = await openPooled();
    await ask(wire, query('BEGIN; INSERT INTO half VALUES (1)'));
    wire.close();
    assert.equal(await one(client, 'SELECT count(*)::int FROM half'), 0);
    const locks = "SELECT count(*)::int FROM pg_locks WHERE relation = 'half'::regclass";
    await until(async () => (await one(client, locks)) === 0, { what: 'its transaction to end' });
  });

  it('that leaves in its query has it cancelled', async () => {
    const wire = await openPooled();
    const sleeping = async () => {
      const { rows } = await gated.postmaster.query("SELECT 1 FROM pg_stat_activity WHERE wait_event = 'PgSleep'");
      return rows.length > 0;
    };
    wire.send(query('SELECT pg_sleep(600)'));
    await until(sleeping, { what: 'the query to run' });
    wire.close();
    await until(async () => !(await sleeping()), { what: 'the query to end' });
    assert.equal(await one(await connect(), 'SELECT 1'), 1);
  });

  it('that only closes its half is answered', async () => {
    // Whose answer takes longer than the usual patience has left; here it may take long.
    const { addresses } = await gated.openGateway({ limits: { linger_timeout_ms: 500 } });
    const wire = await openPooled({ port: addresses[0]!.port, allowHalfOpen: true });
    // It has its server connection: one that still waits for it would be forgotten.
    assert.deepEqual(await ask(wire, query('BEGIN')), ['C', 'ZT']);
    wire.send(query('SELECT pg_sleep(0.1) IS NULL; COMMIT'), message('X', Buffer.alloc(0)));
    wire.stream.end();
    assert.deepEqual(await answer(wire), ['T', 'Df', 'C', 'C', 'ZI']);
    assert.equal((await wire.rest()).length, 0);
  });

  it('that leaves over TLS before it was answered is answered', async () => {
    for (const length of [1, 300_000]) {
      const wire = await openDirectTls(gated.port, {
        ca: gated.authority_pem,
        servername: `${ENDPOINT}-pooler.localhost`,
        ALPNProtocols: ['postgresql'],
      });
      opened.push(() => wire.close());
      await logIn(wire, { user: ROLE, database: 'neondb' }, PASSWORD);
      await wire.until('Z');
      wire.send(query(`SELECT repeat('x', ${length})`), message('X', Buffer.alloc(0)));
      const answered = await wire.until('Z');
      assert.equal(answered.find(({ letter }) => letter === 'D')?.body.length, 2 + 4 + length);
      assert.equal((await wire.rest()).length, 0);
    }
  });

  it('that leaves while it waits is forgotten, and nothing is done for it', async () => {
    const holder = await connect();
    await holder.query('BEGIN');
    const gone = await openPooled();
    gone.send(query('CREATE TABLE never ()'));
    gone.close();
    await until(() => gated.gateway.sessionCount(ENDPOINT) === 1, { what: 'the client to be forgotten' });
    await holder.query('COMMIT');
    assert.equal(await one(holder, "SELECT to_regclass('never')"), null);
  });

  it('that does not read holds up the server, not our memory', async () => {
    const wire = await openPooled();
    const memory = heldBytes();
    wire.stream.pause();
    wire.send(query("SELECT repeat('x', 1000) FROM generate_series(1, 100000)"));
    const waits = async () => {
      const { rows } = await gated.postmaster.query(
        `SELECT 1 FROM pg_stat_activity WHERE usename = '${ROLE}' AND wait_event = 'ClientWrite'`,
      );
      return rows.length > 0;
    };
    await until(waits, { what: 'the server to be held up' });
    assert.ok(heldBytes() - memory < 20_000_000, 'nothing piles up here');
    wire.stream.resume();
    assert.equal((await wire.until('Z')).filter(({ letter }) => letter === 'D').length, 100_000);
  });

  it('that sends parameters without end is read as fast as the server takes them', async () => {
    const wire = await openPooled();
    const chunk = Buffer.alloc(64 * 1024, 'x');
    const value_bytes = 1600 * chunk.length;
    // No names and no formats; then one value.
    const head = Buffer.from('4200000000000000000001', 'hex');
    const [length, results] = [Buffer.alloc(4), Buffer.alloc(2)];
    length.writeInt32BE(value_bytes);
    head.writeInt32BE(head.length - 1 + length.length + value_bytes + results.length, 1);
    const write = (bytes: Buffer) => new Promise((resolve) => wire.stream.write(bytes, resolve));

    const before = heldBytes();
    let most = 0;
    for (let round = 0; round < (LONG_MODE ? 20 : 1); round++) {
      await write(Buffer.concat([parse('', 'SELECT length($1::text)'), head, length]));
      for (let sent = 0; sent < value_bytes; sent += chunk.length) {
        await write(chunk);
        if (sent % (64 * chunk.length) === 0) most = Math.max(most, heldBytes() - before);
      }
      await write(Buffer.concat([results, EXECUTE, SYNC]));
      const row = (await wire.until('Z')).find(({ letter }) => letter === 'D');
      assert.ok(row?.body.toString('latin1').endsWith(String(value_bytes)));
    }
    assert.ok(most < 20_000_000, `${most} bytes were held`);
  });

  it('is told when the gateway stops', async () => {
    const gateway = await gated.openGateway();
    const client = new pg.Client({
      ...{ host: '127.0.0.1', port: gateway.addresses[0]!.port, user: ROLE, password: PASSWORD, database: 'neondb' },
      options: POOLED,
    });
    await client.connect();
    // The end of the connection follows, as an error of its own.
    client.on('error', () => undefined);
    const failed = once(client, 'error');
    await gateway.stop();
    assert.equal((await failed)[0].code, '57P01');
  });
});
