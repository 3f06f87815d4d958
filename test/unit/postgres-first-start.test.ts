import assert from 'node:assert/strict';
import { mkdir, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { readActivity } from '../../src/postgres/activity.ts';
import { cleanChildFiles, needsQuietStart, quietChild } from '../../src/postgres/first-start.ts';
import type { OpenSession } from '../../src/postgres/session.ts';
import { TEMPLATE_DATABASE } from '../../src/postgres/template.ts';
import {
  admitCustomer,
  type Cluster,
  copyCluster,
  MAJORS,
  type Nursery,
  openNursery,
  quietSettings,
  until,
  withServer,
} from '../support/postgres.ts';

const PARENT = { wal_level: 'logical', max_prepared_transactions: '5', fsync: 'off', wal_recycle: 'off' };
const ORDINARY = { wal_level: 'replica', max_prepared_transactions: '0', fsync: 'off' };
const NO_SCHEDULER = { hasScheduler: false };

let nursery: Nursery;
before(async () => {
  nursery = await openNursery();
});
after(() => nursery[Symbol.asyncDispose]());

/** Runs statements in `neondb`, each by itself. */
async function run(open: OpenSession, ...statements: string[]): Promise<void> {
  await using session = await open(TEMPLATE_DATABASE);
  for (const statement of statements) await session.query(statement);
}

async function ask<T = number>(open: OpenSession, query: string, database = TEMPLATE_DATABASE): Promise<T> {
  await using session = await open(database);
  const { rows } = await session.query({ text: query, rowMode: 'array' });
  return rows[0]?.[0];
}

const clone = (parent: Cluster): Promise<Cluster> => copyCluster(parent, nursery.newPath());

/** What an operation does with a clone of a stopped parent. True when it needed a quiet start. */
async function prepare(child: Cluster): Promise<boolean> {
  await cleanChildFiles(child.path);
  if (!(await needsQuietStart(child.path, NO_SCHEDULER))) return false;
  await quietly(child);
  return true;
}

const quietly = (child: Cluster, more: Readonly<Record<string, string>> = {}): Promise<void> =>
  withServer(child, { ...quietSettings(child.distribution.major), ...more }, quietChild);

for (const major of MAJORS) {
  describe(`the first start of a child on ${major}`, () => {
    test('a clone of a parent that was stopped cleanly needs no quiet start', async () => {
      const parent = await nursery.plant(major);
      await withServer(parent, PARENT, (open) => run(open, 'CREATE TABLE public.t AS SELECT 1 AS one'));
      const child = await clone(parent);
      assert.equal(await prepare(child), false);
      assert.equal(await needsQuietStart(child.path, { hasScheduler: true }), true);
      await withServer(child, ORDINARY, async (open) => assert.equal(await ask(open, 'SELECT one FROM public.t'), 1));
    });

    test('a parent that was not stopped cleanly does', async () => {
      const parent = await nursery.plant(major);
      await withServer(parent, PARENT, async (open) => {
        await run(open, 'CREATE TABLE public.t AS SELECT 1 AS one');
        const child = await clone(parent);
        await cleanChildFiles(child.path);
        assert.equal(await needsQuietStart(child.path, NO_SCHEDULER), true);
        assert.deepEqual(
          (await readdir(child.path)).filter((name) => name.startsWith('postmaster')),
          [],
        );
      });
    });

    test('slots are not inherited, nor is the WAL that was kept for them', async () => {
      const parent = await nursery.plant(major);
      await withServer(parent, PARENT, async (open) => {
        await run(
          open,
          "SELECT pg_create_logical_replication_slot('logical', 'pgoutput')",
          "SELECT pg_create_physical_replication_slot('physical', true)",
          'CREATE TABLE public.t (n int)',
        );
        for (let round = 0; round < 3; round++) {
          await run(open, 'INSERT INTO public.t SELECT generate_series(1, 20000)', 'SELECT pg_switch_wal()');
        }
      });
      const untouched = await clone(parent);
      await assert.rejects(
        withServer(untouched, ORDINARY, async () => undefined),
        /wal_level/,
      );

      const child = await clone(parent);
      assert.equal(await prepare(child), false);
      assert.equal((await segments(child)).length, 1);
      await withServer(child, ORDINARY, async (open) => {
        assert.equal(await ask(open, 'SELECT count(*)::int FROM pg_replication_slots'), 0);
        assert.equal(await ask(open, 'SELECT count(*)::int FROM public.t'), 60_000);
      });
      assert.ok((await segments(parent)).length > 3);
      await withServer(parent, PARENT, async (open) => {
        assert.equal(await ask(open, 'SELECT count(*)::int FROM pg_replication_slots'), 2);
      });
    });

    test('prepared transactions are rolled back, in databases too that let nobody in', async () => {
      const parent = await nursery.plant(major);
      await withServer(parent, PARENT, async (open) => {
        await run(
          open,
          'CREATE TABLE public.t (n int)',
          'BEGIN',
          'INSERT INTO public.t VALUES (1)',
          `PREPARE TRANSACTION 'it''s "one"'`,
          'CREATE DATABASE "Closed ""one"""',
        );
        await using closed = await open('Closed "one"');
        await closed.query('BEGIN');
        await closed.query('CREATE TABLE public.t (n int)');
        await closed.query("PREPARE TRANSACTION 'closed'");
        await run(open, 'ALTER DATABASE "Closed ""one""" ALLOW_CONNECTIONS false');
      });
      const untouched = await clone(parent);
      await assert.rejects(
        withServer(untouched, ORDINARY, async () => undefined),
        /max_prepared_transactions|prepared transactions/,
      );

      const child = await clone(parent);
      assert.equal(await prepare(child), true);
      assert.deepEqual(await readdir(join(child.path, 'pg_twophase')), []);
      assert.equal(await needsQuietStart(child.path, NO_SCHEDULER), false);
      await withServer(child, ORDINARY, async (open) => {
        assert.equal(await ask(open, 'SELECT count(*)::int FROM public.t'), 0);
        assert.equal(await ask(open, `SELECT datallowconn FROM pg_database WHERE datname LIKE 'Closed%'`), false);
      });
      await withServer(parent, PARENT, async (open) => {
        await run(open, `COMMIT PREPARED 'it''s "one"'`);
        assert.equal(await ask(open, 'SELECT count(*)::int FROM public.t'), 1);
        assert.equal(await ask(open, 'SELECT count(*)::int FROM pg_prepared_xacts'), 1);
      });
    });

    test('a subscription stays its parent’s', async () => {
      const publisher = await nursery.plant(major);
      const parent = await nursery.plant(major);
      await withServer(publisher, PARENT, async (atPublisher) => {
        await subscribe(atPublisher, parent);

        const untouched = await clone(parent);
        await withServer(untouched, PARENT, async () => {
          await until(() => ask<boolean>(atPublisher, 'SELECT active FROM pg_replication_slots'), Boolean);
        });
        await run(atPublisher, "INSERT INTO public.t VALUES ('while both are stopped')");

        const child = await clone(parent);
        assert.equal(await prepare(child), true);
        await withServer(child, PARENT, async (atChild) => {
          const found = await ask<object>(atChild, 'SELECT row_to_json(s) FROM pg_subscription s');
          const { subname, subenabled, subslotname } = found as Record<string, unknown>;
          assert.deepEqual(
            { subname, subenabled, subslotname },
            { subname: 'From "it"', subenabled: false, subslotname: null },
          );
          await withServer(parent, PARENT, async (atParent) => {
            await run(atPublisher, "INSERT INTO public.t VALUES ('while both run')");
            await until(
              () => ask(atParent, 'SELECT count(*)::int FROM public.t'),
              (count) => count === 3,
            );
            await using session = await atParent('postgres');
            // An idle subscription counts as activity: its publisher may send something at any moment.
            assert.equal((await readActivity(session)).busy, true);
            assert.equal(await ask(atChild, 'SELECT count(*)::int FROM public.t'), 1);
          });
        });
      });
    });

    test('a table of subscriptions that was rewritten is not taken for an empty one', async () => {
      const parent = await nursery.plant(major);
      await withServer(parent, PARENT, async (open) => {
        await run(
          open,
          "CREATE SUBSCRIPTION s CONNECTION 'host=/nowhere' PUBLICATION p WITH (connect = false, slot_name = 'its')",
          'VACUUM FULL pg_subscription',
        );
      });
      const child = await clone(parent);
      assert.equal(await prepare(child), true);
      await withServer(child, ORDINARY, async (open) => {
        assert.equal(await ask(open, 'SELECT count(*)::int FROM pg_subscription WHERE subslotname IS NULL'), 1);
      });
    });

    test('unlogged tables are empty and usable, logged ones keep what they hold', async () => {
      const parent = await nursery.plant(major);
      await withServer(parent, PARENT, async (open) => {
        await run(
          open,
          'CREATE UNLOGGED TABLE public.u (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, t text)',
          "CREATE INDEX ON public.u USING gin (to_tsvector('simple', t))",
          "INSERT INTO public.u (t) SELECT string_agg(md5(n::text || g), ' ') FROM generate_series(1, 50) n, generate_series(1, 200) g GROUP BY n",
          'CREATE TABLE public.l AS SELECT id FROM public.u',
          'VACUUM public.u',
        );
      });
      const untouched = await clone(parent);
      await withServer(untouched, ORDINARY, async (open) => {
        assert.equal(await ask(open, 'SELECT count(*)::int FROM public.u'), 50);
      });

      const child = await clone(parent);
      assert.equal(await prepare(child), false);
      await cleanChildFiles(child.path);
      await withServer(child, ORDINARY, async (open) => {
        assert.equal(await ask(open, 'SELECT count(*)::int FROM public.u'), 0);
        await run(open, "INSERT INTO public.u (t) SELECT repeat('word ', 5000) FROM generate_series(1, 10)");
        await run(open, 'CREATE EXTENSION amcheck SCHEMA public');
        const bad = await ask(open, "SELECT count(*)::int FROM public.verify_heapam('public.u')");
        assert.equal(bad, 0);
        await run(open, "SELECT public.bt_index_check('public.u_pkey', true)");
        assert.equal(await ask(open, 'SELECT max(id)::int FROM public.u'), 10);
        const matching =
          "SELECT count(*)::int FROM public.u WHERE to_tsvector('simple', t) @@ to_tsquery('simple', 'word')";
        assert.equal(await ask(open, matching), 10);
        assert.equal(await ask(open, 'SELECT count(*)::int FROM public.l'), 50);
      });
      await withServer(parent, PARENT, async (open) => {
        assert.equal(await ask(open, 'SELECT count(*)::int FROM public.u'), 50);
      });
    });

    test('links that a customer left are refused, and what they point at stays', async () => {
      const secret = join(nursery.directory, `secret-${major}`);
      await mkdir(secret, { recursive: true });
      await writeFile(join(secret, 'state'), 'not theirs');
      const parent = await nursery.plant(major);
      const database = join('base', (await readdir(join(parent.path, 'base')))[0]!);
      for (const [link, target] of [
        ['pg_replslot/slot', secret],
        [`${database}/99999_init`, join(secret, 'state')],
        ['base/99999', secret],
      ] as const) {
        const child = await clone(parent);
        await symlink(target, join(child.path, link));
        await assert.rejects(cleanChildFiles(child.path), /ELOOP|ENOTDIR/, link);
        assert.equal(await readFile(join(secret, 'state'), 'utf8'), 'not theirs');
        await assert.rejects(readFile(join(child.path, database, '99999')), /ENOENT/);
      }
      const child = await clone(parent);
      await symlink(secret, join(child.path, 'pg_tblspc/99999'));
      await assert.rejects(cleanChildFiles(child.path), /tablespaces/);
      await rm(secret, { recursive: true });
    });
  });
}

// Only here can a server be shown an extension that its distribution does not have.
test('scheduled jobs are off, and a customer’s table of that name is left alone', async () => {
  const parent = await nursery.plant(18);
  const offer = { extension_control_path: `${await writeScheduler()}:$system` };
  await withServer(parent, { ...PARENT, ...offer }, async (open) => {
    await run(open, 'CREATE EXTENSION pg_cron', "INSERT INTO cron.job (command) VALUES ('SELECT 1')");
    await using other = await open('postgres');
    await other.query('CREATE SCHEMA cron');
    await other.query('CREATE TABLE cron.job AS SELECT true AS active');
  });
  const child = await clone(parent);
  await cleanChildFiles(child.path);
  await quietly(child, offer);
  await withServer(child, ORDINARY, async (open) => {
    assert.equal(await ask(open, 'SELECT count(*)::int FROM cron.job WHERE active'), 0);
    assert.equal(await ask(open, 'SELECT count(*)::int FROM cron.job'), 1);
    assert.equal(await ask(open, 'SELECT count(*)::int FROM cron.job WHERE active', 'postgres'), 1);
  });
});

/** What matters here of pg_cron: its table, whose trigger wants the library. */
async function writeScheduler(): Promise<string> {
  const directory = join(nursery.directory, 'scheduler');
  await mkdir(join(directory, 'extension'), { recursive: true });
  await writeFile(
    join(directory, 'extension/pg_cron.control'),
    "default_version = '1.6'\nrelocatable = false\nschema = pg_catalog\n",
  );
  await writeFile(
    join(directory, 'extension/pg_cron--1.6.sql'),
    `CREATE SCHEMA cron;
     CREATE TABLE cron.job (jobid bigserial PRIMARY KEY, command text NOT NULL, active boolean NOT NULL DEFAULT true);
     CREATE FUNCTION cron.invalidate() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE ''no library''; END';
     CREATE TRIGGER invalidate AFTER UPDATE ON cron.job FOR EACH STATEMENT EXECUTE FUNCTION cron.invalidate();`,
  );
  return directory;
}

const segments = async ({ path }: Cluster): Promise<string[]> =>
  (await readdir(join(path, 'pg_wal'))).filter((name) => /^[0-9A-F]{24}$/.test(name));

/** Gives the parent a real subscription that has received one row. */
async function subscribe(atPublisher: OpenSession, parent: Cluster): Promise<void> {
  await using session = await atPublisher('postgres');
  await (await admitCustomer(session))().then((client) => client.end());
  const { rows } = await session.query('SHOW unix_socket_directories');
  await run(
    atPublisher,
    'CREATE TABLE public.t (what text)',
    'GRANT SELECT ON public.t TO neondb_owner',
    'CREATE PUBLICATION p FOR TABLE public.t',
  );
  await withServer(parent, PARENT, async (atParent) => {
    const connection = `host=${rows[0].unix_socket_directories} user=neondb_owner password=of-a-test dbname=neondb`;
    await run(
      atParent,
      'CREATE TABLE public.t (what text)',
      `CREATE SUBSCRIPTION "From ""it""" CONNECTION '${connection}' PUBLICATION p WITH (slot_name = 'its')`,
    );
    await run(atPublisher, "INSERT INTO public.t VALUES ('before')");
    await until(
      () => ask(atParent, 'SELECT count(*)::int FROM public.t'),
      (count) => count === 1,
    );
    await until(
      () => ask<string>(atParent, "SELECT string_agg(srsubstate, '') FROM pg_subscription_rel"),
      (state) => state === 'r',
    );
  });
}
