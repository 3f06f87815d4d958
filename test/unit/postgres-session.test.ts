import assert from 'node:assert/strict';
import { connect, createServer } from 'node:net';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { openSession } from '../../src/postgres/session.ts';
import { TEMPLATE_DATABASE } from '../../src/postgres/template.ts';
import { admitCustomer, MAJORS, type Nursery, openNursery, until, withServer } from '../support/postgres.ts';

let nursery: Nursery;
before(async () => {
  nursery = await openNursery();
});
after(() => nursery[Symbol.asyncDispose]());

/** What an owner of a database can set on it to steer whoever connects, and a value that would do harm. */
const HOSTILE: Readonly<Record<string, string>> = {
  role: 'neondb_owner',
  session_authorization: 'neondb_owner',
  search_path: 'public',
  row_security: 'on',
  default_transaction_read_only: 'on',
  default_transaction_isolation: 'serializable',
  default_transaction_deferrable: 'on',
  standard_conforming_strings: 'off',
  quote_all_identifiers: 'on',
  statement_timeout: '1ms',
  lock_timeout: '1ms',
  idle_session_timeout: '1ms',
  idle_in_transaction_session_timeout: '1ms',
  synchronous_commit: 'off',
  client_encoding: 'LATIN1',
  bytea_output: 'escape',
  DateStyle: 'German',
  IntervalStyle: 'sql_standard',
  TimeZone: 'Asia/Tokyo',
  check_function_bodies: 'on',
};

for (const major of MAJORS) {
  describe(`a platform session on ${major}`, () => {
    test('is not steered by what a customer set on the database', async () => {
      await withServer(await nursery.plant(major), {}, async (open) => {
        await using postgres = await open('postgres');
        const connectCustomer = await admitCustomer(postgres);
        await using plain = await open(TEMPLATE_DATABASE);
        const read = async (session: typeof plain) =>
          (
            await session.query(
              `SELECT name, setting FROM pg_settings WHERE lower(name) = ANY ($1)
               UNION ALL SELECT 'user', current_user || ' ' || session_user ORDER BY 1`,
              [Object.keys(HOSTILE).map((name) => name.toLowerCase())],
            )
          ).rows;
        const expected = await read(plain);

        const customer = await connectCustomer();
        let set = 0;
        const settings = { ...HOSTILE, ...(major >= 17 ? { transaction_timeout: '5s' } : {}) };
        for (const [name, value] of Object.entries(settings)) {
          await customer.query(`ALTER DATABASE ${TEMPLATE_DATABASE} SET ${name} = '${value}'`).then(
            () => set++,
            (error) => assert.match(error.message, /cannot be set|permission denied|invalid value/, name),
          );
        }
        assert.ok(set > 15, `${set} settings were taken`);
        const steered = await connectCustomer({ database: TEMPLATE_DATABASE }).catch((error) => error);
        if (!(steered instanceof Error)) await steered.end().catch(() => undefined);

        await using session = await open(TEMPLATE_DATABASE);
        assert.deepEqual(await read(session), expected);
        if (major >= 17)
          assert.equal((await session.query('SHOW transaction_timeout')).rows[0].transaction_timeout, '0');
        await session.query('SELECT pg_sleep(0.01)');
        await customer.end().catch(() => undefined);
      });
    });

    test('does not show its statements to a customer who watches the server', async () => {
      await withServer(await nursery.plant(major), {}, async (open) => {
        await using session = await open('postgres');
        const customer = await (await admitCustomer(session))();
        const marker = 'a_verifier_in_a_statement';
        await session.query(`SELECT '${marker}'`);
        const sleeping = session.query(`SELECT pg_sleep(60), '${marker}'`).catch(() => undefined);
        await using other = await open('postgres');
        const { pid } = await until<{ pid: number } | undefined>(
          async () => (await other.query("SELECT pid FROM pg_stat_activity WHERE wait_event = 'PgSleep'")).rows[0],
          Boolean,
        ).then((row) => row!);
        const { rows } = await customer.query(
          `SELECT query FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND query LIKE '%${marker}%'`,
        );
        assert.deepEqual(rows, []);
        await other.query('SELECT pg_cancel_backend($1)', [pid]);
        await sleeping;
        await customer.end();
      });
    });
  });
}

test('a session whose server goes away rejects what runs, and nothing else happens', async () => {
  await withServer(await nursery.plant(17), {}, async (open) => {
    await using session = await open('postgres');
    await using victim = await open('postgres');
    const { rows } = await victim.query('SELECT pg_backend_pid() AS pid');
    const running = victim.query('SELECT pg_sleep(60)');
    const rejected = assert.rejects(running);
    await session.query('SELECT pg_terminate_backend($1)', [rows[0].pid]);
    await rejected;
    await assert.rejects(victim.query('SELECT 1'));
  });
});

test('statements and locks do not wait for ever', async () => {
  await withServer(await nursery.plant(17), {}, async (open) => {
    await using session = await open('postgres');
    const host = (await session.query('SHOW unix_socket_directories')).rows[0].unix_socket_directories;
    const dial = async () => connect(join(host, '.s.PGSQL.5432'));
    await using short = await openSession(dial, { database: 'postgres', statement_timeout_ms: 50 });
    await assert.rejects(short.query('SELECT pg_sleep(60)'), { code: '57014' });
    // Its statement has the usual time, however long it takes until it comes to wait.
    await using other = await openSession(dial, { database: 'postgres', lock_timeout_ms: 20 });
    await session.query('BEGIN; LOCK TABLE pg_catalog.pg_database IN ACCESS EXCLUSIVE MODE');
    await assert.rejects(other.query('BEGIN; LOCK TABLE pg_catalog.pg_database'), { code: '55P03' });
    await session.query('ROLLBACK');
  });
});

test('a role that needs a password is not tried with one', async () => {
  await withServer(await nursery.plant(17), {}, async (open) => {
    await using session = await open('postgres');
    const host = (await session.query('SHOW unix_socket_directories')).rows[0].unix_socket_directories;
    const dial = async () => connect(join(host, '.s.PGSQL.5432'));
    process.env.PGPASSWORD = 'of-the-environment';
    try {
      await assert.rejects(
        openSession(dial, { database: 'postgres', user: 'neondb_owner' }),
        /asked neondb_owner for a password/,
      );
    } finally {
      delete process.env.PGPASSWORD;
    }
  });
});

test('a server that accepts and does not answer is given up', async () => {
  const path = join(nursery.directory, 'silent');
  const silent = createServer(() => undefined).listen(path);
  try {
    await assert.rejects(
      openSession(async () => connect(path), { database: 'postgres', connect_timeout_ms: 50 }),
      /timeout/,
    );
  } finally {
    silent.close();
  }
});
