import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type pg from 'pg';
import { type Activity, checkpoint, readActivity } from '../../src/postgres/activity.ts';
import type { Session } from '../../src/postgres/session.ts';
import { TEMPLATE_DATABASE } from '../../src/postgres/template.ts';
import { admitCustomer, MAJORS, type Nursery, openNursery, until, withServer } from '../support/postgres.ts';

/** Naptime is long, so that no autovacuum worker comes by unasked. */
const SETTINGS = { wal_level: 'logical', autovacuum_naptime: '2147483', fsync: 'off' };

interface Watched {
  readonly session: Session;
  readonly open: (database: string) => Promise<Session>;
  readonly connect: (options?: object) => Promise<pg.Client>;
}

let nursery: Nursery;
before(async () => {
  nursery = await openNursery();
});
after(() => nursery[Symbol.asyncDispose]());

async function watch(major: number, use: (watched: Watched) => Promise<void>, settings = {}): Promise<void> {
  await withServer(await nursery.plant(major), { ...SETTINGS, ...settings }, async (open) => {
    await using session = await open('postgres');
    await use({ session, open, connect: await admitCustomer(session) });
  });
}

/** Nothing of what came before is still running or on its way into the counters. */
async function settle(session: Session): Promise<Activity> {
  let last = await readActivity(session);
  return until(
    async () => {
      const before = last;
      last = await readActivity(session);
      return { ...last, same: JSON.stringify(before.counters) === JSON.stringify(last.counters) };
    },
    ({ busy, same, last_active_at }) => !busy && same && last_active_at === undefined,
  );
}

for (const major of MAJORS) {
  describe(`activity on ${major}`, () => {
    test('the platform is no customer: its sessions are not activity, whatever they do in the server', async () => {
      await watch(major, async ({ session, open }) => {
        const { counters, busy, last_active_at } = await readActivity(session);
        assert.equal(busy, false);
        assert.equal(last_active_at, undefined);
        await using other = await open('postgres');
        await other.query('BEGIN');
        await other.query('SELECT count(*) FROM pg_class, generate_series(1, 100)');
        const again = await readActivity(session, counters);
        assert.deepEqual(again, { counters, busy: false, last_active_at: undefined });
      });
    });

    test('an idle connection keeps nothing awake, and tells when it was last used', async () => {
      await watch(major, async ({ session, connect }) => {
        const client = await connect();
        const before = Date.now();
        await client.query('SELECT 1');
        const used = Date.now();
        const first = await until(
          () => readActivity(session),
          ({ busy }) => !busy,
        );
        const read = Date.now();
        const second = await readActivity(session, first.counters);
        assert.equal(second.busy, false);
        // The server tells an age, which is taken off our time once its answer has come.
        const latest = { first: read, second: used + Date.now() - read };
        for (const [name, { last_active_at }] of Object.entries({ first, second })) {
          const time = last_active_at!.getTime();
          assert.ok(
            time >= before - 5 && time <= latest[name as keyof typeof latest] + 5,
            `${name}: ${time - before} ms`,
          );
        }
        await client.end();
      });
    });

    test('a statement, an open transaction and a failed one do', async () => {
      await watch(major, async ({ session, connect }) => {
        const client = await connect();
        const running = client.query('SELECT pg_sleep(3600)').catch(() => undefined);
        await until(
          () => session.query("SELECT FROM pg_stat_activity WHERE wait_event = 'PgSleep'"),
          ({ rowCount }) => rowCount === 1,
        );
        const before = Date.now();
        const statement = await readActivity(session);
        assert.equal(statement.busy, true);
        assert.ok(statement.last_active_at!.getTime() >= before);
        await session.query("SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'PgSleep'");
        await running;

        await client.query('BEGIN');
        assert.equal((await readActivity(session)).busy, true);
        await assert.rejects(client.query('SELECT 1/0'));
        assert.equal((await readActivity(session)).busy, true);
        await client.query('ROLLBACK');
        assert.equal((await readActivity(session)).busy, false);
        await client.end();
      });
    });

    test('a connection that came and went between two readings is seen, even one that ran nothing', async () => {
      await watch(major, async ({ session, connect }) => {
        const first = await settle(session);
        await (await connect()).end();
        const before = Date.now();
        const second = await until(
          () => readActivity(session, first.counters),
          ({ last_active_at }) => last_active_at !== undefined,
        );
        assert.equal(second.counters.sessions, first.counters.sessions + 1);
        assert.ok(second.last_active_at!.getTime() >= before);
        assert.equal((await settle(session)).last_active_at, undefined);
      });
    });

    test('a statement in the maintenance database that came and went is seen', async () => {
      await watch(major, async ({ session, connect }) => {
        const first = await settle(session);
        const client = await connect({ database: 'postgres' });
        await client.query('SELECT count(*) FROM pg_class');
        await client.end();
        const second = await until(
          () => readActivity(session, first.counters),
          ({ last_active_at }) => last_active_at !== undefined,
        );
        assert.ok(second.counters.active_us > first.counters.active_us);
      });
    });

    test('a logical subscriber keeps a compute awake, a physical replica does not', async () => {
      await watch(major, async ({ session, connect }) => {
        const physical = await connect({ replication: 'true', database: undefined });
        const { rows } = await session.query('SELECT pg_current_wal_lsn()::text AS lsn');
        streaming(physical, `START_REPLICATION PHYSICAL ${rows[0].lsn}`);
        await until(
          () => session.query("SELECT FROM pg_stat_replication WHERE state = 'streaming'"),
          ({ rowCount }) => rowCount === 1,
        );
        await settle(session);
        await physical.end();

        await session.query("SELECT pg_create_logical_replication_slot('subscriber', 'pgoutput')");
        const logical = await connect({ replication: 'database', database: 'postgres' });
        streaming(
          logical,
          "START_REPLICATION SLOT subscriber LOGICAL 0/0 (proto_version '1', publication_names 'none')",
        );
        await until(
          () => readActivity(session),
          ({ busy }) => busy,
        );
        await logical.end();
        await until(
          () => readActivity(session),
          ({ busy }) => !busy,
        );
      });
    });

    test('an autovacuum worker keeps a compute awake', async () => {
      const eager = { autovacuum_naptime: '1', autovacuum_vacuum_cost_delay: '100', autovacuum_vacuum_cost_limit: '1' };
      await watch(
        major,
        async ({ session, connect }) => {
          const client = await connect();
          await client.query(
            'CREATE TABLE worn AS SELECT g, repeat(g::text, 50) AS t FROM generate_series(1, 20000) g',
          );
          await client.query('UPDATE worn SET t = t || g');
          await client.end();
          await until(
            () => session.query("SELECT FROM pg_stat_activity WHERE query LIKE 'autovacuum: VACUUM%'"),
            ({ rowCount }) => (rowCount ?? 0) > 0,
          );
          assert.equal((await readActivity(session)).busy, true);
        },
        eager,
      );
    });

    test('a checkpoint is made, keeps to its time, and leaves the session as it was', async () => {
      await watch(major, async ({ session, open }) => {
        const { rows: before } = await session.query('SELECT checkpoint_lsn FROM pg_control_checkpoint()');
        await using writer = await open(TEMPLATE_DATABASE);
        await writer.query('CREATE TABLE public.dirty AS SELECT generate_series(1, 20000)');
        await checkpoint(session);
        const { rows: later } = await session.query('SELECT checkpoint_lsn FROM pg_control_checkpoint()');
        assert.notEqual(later[0].checkpoint_lsn, before[0].checkpoint_lsn);

        await writer.query('INSERT INTO public.dirty SELECT generate_series(1, 200000)');
        await assert.rejects(checkpoint(session, 1), { code: '57014' });
        const { rows } = await session.query('SHOW statement_timeout');
        assert.equal(rows[0].statement_timeout, '30s');
      });
    });
  });
}

/** Begins to stream on a replication connection; it goes on until the connection ends. */
function streaming(client: pg.Client, command: string): void {
  client.query(command).catch(() => undefined);
}
