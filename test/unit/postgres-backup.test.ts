import assert from 'node:assert/strict';
import { constants } from 'node:fs';
import { copyFile, mkdir, open as openFile, readdir, rm } from 'node:fs/promises';
import { join, relative } from 'node:path';
import { after, before, describe, test } from 'node:test';
import {
  type Backup,
  type BackupEnd,
  CLONE_OF_RUNNING,
  CLONE_OF_STOPPED,
  completeClone,
  startBackup,
} from '../../src/postgres/backup.ts';
import { startBackupWithoutCheckpoint } from '../../src/postgres/backup-without-checkpoint.ts';
import { readControlFile } from '../../src/postgres/control-file.ts';
import { cleanChildFiles, needsQuietStart, quietChild, spareFlush } from '../../src/postgres/first-start.ts';
import { chownTree } from '../../src/postgres/initdb.ts';
import type { OpenSession, Session } from '../../src/postgres/session.ts';
import { TEMPLATE_DATABASE } from '../../src/postgres/template.ts';
import {
  type Cluster,
  MAJORS,
  type Nursery,
  openNursery,
  quietSettings,
  until,
  withServer,
} from '../support/postgres.ts';
import { seededRandom, testSeed } from '../support/random.ts';

const SETTINGS = { fsync: 'off', wal_recycle: 'off', autovacuum: 'off' };
const CLIENTS = 4;
const ACCOUNTS = 50;
const GROUP_FILES = 120;

type Start = (open: OpenSession, parentPath: string) => Promise<Backup>;
const WAYS: Readonly<Record<string, Start>> = {
  'with a checkpoint': startBackup,
  'without a checkpoint': async (open, parentPath) => {
    const backup = await startBackupWithoutCheckpoint(open, parentPath);
    assert.ok(backup);
    return backup;
  },
};

let nursery: Nursery;
before(async () => {
  nursery = await openNursery();
});
after(() => nursery[Symbol.asyncDispose]());

async function ask<T = number>(session: Session, query: string): Promise<T> {
  const { rows } = await session.query({ text: query, rowMode: 'array' });
  return rows[0]?.[0];
}

/** Copies the files in an order of chance, with pauses that the server goes on in, and without what a clone leaves out. */
async function copyFiles(
  parent: Cluster,
  {
    random,
    pause,
    selection = CLONE_OF_RUNNING,
  }: { random: () => number; pause: () => Promise<void>; selection?: typeof CLONE_OF_RUNNING },
): Promise<Cluster> {
  const child = { ...parent, path: nursery.newPath() };
  const entries = await readdir(parent.path, { withFileTypes: true, recursive: true });
  const named = entries.map((entry) => ({ entry, path: relative(parent.path, join(entry.parentPath, entry.name)) }));
  const left = named.filter(
    ({ path }) =>
      !selection.omit_files.includes(path) &&
      !selection.empty_directories.some((directory) => path.startsWith(`${directory}/`)),
  );
  await mkdir(child.path, { mode: 0o700 });
  for (const { entry, path } of left) if (entry.isDirectory()) await mkdir(join(child.path, path), { recursive: true });
  // The control file last: it then names a checkpoint that most files were copied before.
  const files = left
    .filter(({ entry }) => entry.isFile())
    .map(({ path }) => ({ path, order: path === 'global/pg_control' ? 1 : random() }));
  files.sort((a, b) => a.order - b.order);
  for (const [index, { path }] of files.entries()) {
    if (index % GROUP_FILES === 0) await pause();
    await copyFile(join(parent.path, path), join(child.path, path), constants.COPYFILE_FICLONE).catch((error) => {
      if (error.code !== 'ENOENT') throw error;
    });
  }
  if (child.owner) await chownTree(child.path, child.owner);
  return child;
}

interface Load {
  /** Of each client, the last number it inserted and was told so. */
  acknowledged(): number[];
  /** Of each client, the last number it asked for. */
  asked(): number[];
  /** Waits until that many more transactions were committed. */
  progress(count?: number): Promise<void>;
  stop(): Promise<void>;
}

/** Clients that count upwards, each in rows of its own, and move money around between accounts. */
async function startLoad(open: OpenSession, random: () => number): Promise<Load> {
  {
    await using session = await open(TEMPLATE_DATABASE);
    await session.query('CREATE TABLE public.counted (client int, n int, filler text, PRIMARY KEY (client, n))');
    await session.query('CREATE TABLE public.account (id int PRIMARY KEY, money bigint NOT NULL)');
    await session.query('CREATE UNLOGGED TABLE public.passing AS SELECT generate_series(1, 1000) AS n');
    await session.query(`INSERT INTO public.account SELECT n, 1000 FROM generate_series(1, ${ACCOUNTS}) n`);
  }
  const asked = Array<number>(CLIENTS).fill(0);
  const acknowledged = Array<number>(CLIENTS).fill(0);
  let stopped = false;
  const clients = asked.map(async (_, client) => {
    await using session = await open(TEMPLATE_DATABASE);
    while (!stopped) {
      const n = ++asked[client]!;
      const [from, to] = [random(), random()].map((value) => 1 + Math.floor(value * ACCOUNTS)).sort((a, b) => a - b);
      await session.query(
        `BEGIN;
         INSERT INTO public.counted VALUES (${client}, ${n}, repeat(md5('${n}'), 30));
         UPDATE public.account SET money = money - 7 WHERE id = ${from};
         UPDATE public.account SET money = money + 7 WHERE id = ${to};
         DELETE FROM public.passing WHERE n = ${n};
         COMMIT`,
      );
      acknowledged[client] = n;
    }
  });
  const total = () => acknowledged.reduce((sum, n) => sum + n, 0);
  const failed = Promise.all(clients).then(() => new Promise<never>(() => undefined));
  // Said where the load is waited for; a test that ends otherwise takes the server from under the clients.
  failed.catch(() => undefined);
  return {
    acknowledged: () => [...acknowledged],
    asked: () => [...asked],
    progress: async (count = 5) => {
      const goal = total() + count;
      await Promise.race([
        until(
          async () => total(),
          (now) => now >= goal,
        ),
        failed,
      ]);
    },
    stop: async () => {
      stopped = true;
      await Promise.all(clients);
    },
  };
}

/** The child holds all that was committed before the backup was finished, nothing that came later, and no half of anything. */
async function check(child: Cluster, { least, most }: { least: number[]; most: number[] }): Promise<void> {
  assert.equal(await needsQuietStart(child.path, { hasScheduler: false }), true);
  await withServer(child, SETTINGS, async (open) => {
    await using session = await open(TEMPLATE_DATABASE);
    for (let client = 0; client < CLIENTS; client++) {
      const { rows } = await session.query(
        'SELECT count(*)::int AS count, coalesce(max(n), 0) AS last FROM public.counted WHERE client = $1',
        [client],
      );
      const { count, last } = rows[0];
      assert.equal(count, last, 'no transaction is missing before the last');
      assert.ok(last >= least[client]! && last <= most[client]!, `${least[client]} <= ${last} <= ${most[client]}`);
    }
    assert.equal(await ask(session, 'SELECT sum(money)::int FROM public.account'), ACCOUNTS * 1000);
    assert.equal(await ask(session, 'SELECT count(*)::int FROM public.passing'), 0, 'unlogged tables are empty');
    assert.equal(await ask(session, 'SELECT count(*)::int FROM pg_replication_slots'), 0);
    await session.query('CREATE EXTENSION amcheck SCHEMA public');
    const relations = "SELECT oid FROM pg_class WHERE relpersistence = 'p' AND relkind";
    assert.equal(
      await ask(
        session,
        `SELECT count(*)::int FROM (${relations} IN ('r', 't')) r, LATERAL public.verify_heapam(r.oid)`,
      ),
      0,
    );
    await session.query(`SELECT public.bt_index_check(r.oid, true) FROM (${relations} = 'i' AND relam = 403) r`);
    await session.query('INSERT INTO public.account VALUES (0, 0)');
  });
}

for (const major of MAJORS) {
  describe(`a clone of a running server on ${major}`, () => {
    for (const [way, start] of Object.entries(WAYS)) {
      test(`made ${way} is the parent at one moment, while the parent goes on`, async (t) => {
        const seed = testSeed();
        t.diagnostic(`COPPICE_TEST_SEED=${seed}`);
        const random = seededRandom(seed);
        const parent = await nursery.plant(major);
        await withServer(parent, SETTINGS, async (open) => {
          const load = await startLoad(open, random);
          await using session = await open('postgres');
          for (const busy of [false, true]) {
            await load.progress();
            const backup = await start(open, parent.path);
            const child = await copyFiles(parent, {
              random,
              pause: async () => {
                await load.progress();
                // What would remove the WAL that the clone needs.
                if (busy)
                  for (let count = 0; count < 2; count++) await session.query('SELECT pg_switch_wal(); CHECKPOINT');
              },
            });
            await load.progress();
            const least = load.acknowledged();
            const end = await backup.finish();
            const most = load.asked();
            await load.progress();
            await completeClone(parent.path, child.path, end);
            await completeClone(parent.path, child.path, end);
            await backup.abandon();
            await cleanChildFiles(child.path);
            if (busy) await spareFlush(child.path);
            await check(child, { least, most });
            await rm(child.path, { recursive: true });
            assert.equal(await ask(session, 'SELECT count(*)::int FROM pg_replication_slots'), 0);
          }
          await load.stop();
          await using after = await open(TEMPLATE_DATABASE);
          const counted = load.acknowledged().reduce((sum, n) => sum + n, 0);
          assert.equal(await ask(after, 'SELECT count(*)::int FROM public.counted'), counted);
          assert.equal(await ask(after, 'SELECT sum(money)::int FROM public.account'), ACCOUNTS * 1000);
        });
      });

      test(`made ${way} ends at the very position the backup named`, async () => {
        const parent = await nursery.plant(major);
        await withServer(parent, SETTINGS, async (open) => {
          await using session = await open(TEMPLATE_DATABASE);
          await session.query('CREATE TABLE public.t AS SELECT 1 AS n');
          const { child, end } = await backUp(parent, open, start, async (backup) => {
            const ended = await backup.finish();
            assert.ok(Math.abs(ended.stopped_at.getTime() - Date.now()) < 60_000);
            return ended;
          });
          await session.query('INSERT INTO public.t VALUES (2)');
          await completed(child, async (started) => {
            assert.equal(await ask(started, 'SELECT redo_lsn::text FROM pg_control_checkpoint()'), end.stop_lsn);
          });
        });
      });

      test(`made ${way} does not start when WAL is missing`, async () => {
        const parent = await nursery.plant(major);
        await withServer(parent, SETTINGS, async (open) => {
          await using session = await open(TEMPLATE_DATABASE);
          const { child } = await backUp(parent, open, start, async (backup) => {
            await session.query('CREATE TABLE public.t AS SELECT generate_series(1, 50000)');
            return backup.finish();
          });
          const wal = join(child.path, 'pg_wal');
          const last = (await readdir(wal))
            .filter((name) => /^[0-9A-F]{24}$/.test(name))
            .sort()
            .at(-1)!;
          await rm(join(wal, last));
          await spareFlush(child.path);
          await assert.rejects(
            withServer(child, SETTINGS, async () => undefined),
            /WAL ends before end of online backup/,
          );
        });
      });
    }

    test('is not flushed file by file before it replays, which one without a backup label may need', async () => {
      const parent = await nursery.plant(major);
      const { child, end } = await withServer(parent, SETTINGS, async (open) => {
        await using session = await open(TEMPLATE_DATABASE);
        await session.query('CREATE TABLE public.t AS SELECT 1 AS n');
        const killed = await copyFiles(parent, { random: Math.random, pause: async () => undefined });
        await spareFlush(killed.path);
        assert.equal((await readControlFile(killed.path)).state, 'in production');
        return backUp(parent, open, startBackup, (backup) => backup.finish());
      });
      await spareFlush(child.path);
      await spareFlush(child.path);
      assert.equal((await readControlFile(child.path)).state, 'shut down in recovery');
      await completed(child, async (started) => {
        assert.equal(await ask(started, 'SELECT redo_lsn::text FROM pg_control_checkpoint()'), end.stop_lsn);
        assert.equal(await ask(started, 'SELECT n FROM public.t'), 1);
      });
    });

    test('acts no more than one of a stopped server', async () => {
      const parent = await nursery.plant(major);
      const settings = { ...SETTINGS, wal_level: 'logical', max_prepared_transactions: '5' };
      await withServer(parent, settings, async (open) => {
        await using session = await open(TEMPLATE_DATABASE);
        for (const statement of [
          "SELECT pg_create_logical_replication_slot('slot', 'pgoutput')",
          "CREATE SUBSCRIPTION s CONNECTION 'host=/nowhere' PUBLICATION p WITH (connect = false, slot_name = 'its')",
          'CREATE TABLE public.t (n int)',
          'BEGIN',
          'INSERT INTO public.t VALUES (1)',
          "PREPARE TRANSACTION 'before'",
        ]) {
          await session.query(statement);
        }
        const { child } = await backUp(parent, open, startBackup, async (backup) => {
          await session.query('BEGIN; INSERT INTO public.t VALUES (2)');
          await session.query("PREPARE TRANSACTION 'meanwhile'");
          return backup.finish();
        });
        assert.equal(await needsQuietStart(child.path, { hasScheduler: false }), true);
        await withServer(child, quietSettings(major), quietChild);
        await completed(child, async (started) => {
          assert.equal(await ask(started, 'SELECT count(*)::int FROM public.t'), 0);
          assert.equal(await ask(started, 'SELECT count(*)::int FROM pg_replication_slots'), 0);
          assert.equal(await ask(started, 'SELECT count(*)::int FROM pg_subscription WHERE subslotname IS NULL'), 1);
        });
        await session.query("COMMIT PREPARED 'before'");
        await session.query("COMMIT PREPARED 'meanwhile'");
        assert.equal(await ask(session, 'SELECT count(*)::int FROM public.t'), 2);
      });
    });

    test('that lost WAL for want of a slot is refused, and works while no WAL is lost', async () => {
      const parent = await nursery.plant(major);
      await withServer(parent, { ...SETTINGS, max_replication_slots: '1' }, async (open) => {
        await using session = await open('postgres');
        await session.query("SELECT pg_create_physical_replication_slot('customer')");
        const first = await backUp(parent, open, startBackup, (backup) => backup.finish());
        await completed(first.child, async () => undefined);
        const second = backUp(parent, open, startBackup, async (backup) => {
          for (let round = 0; round < 3; round++) {
            await session.query('SELECT pg_log_standby_snapshot(); SELECT pg_switch_wal(); CHECKPOINT');
          }
          return backup.finish();
        });
        await assert.rejects(second, /WAL segment [0-9A-F]{24} was removed/);
      });
    });

    test('whose backup session was killed leaves nothing in the parent', async () => {
      const parent = await nursery.plant(major);
      await withServer(parent, SETTINGS, async (open) => {
        await using session = await open('postgres');
        const backup = await startBackup(open);
        assert.equal(await ask(session, 'SELECT count(*)::int FROM pg_replication_slots'), 1);
        await session.query('SELECT pg_terminate_backend(active_pid, 5000) FROM pg_replication_slots');
        await assert.rejects(backup.finish());
        await backup.abandon();
        await backup.abandon();
        assert.equal(await ask(session, 'SELECT count(*)::int FROM pg_replication_slots'), 0);
        const { child } = await backUp(parent, open, startBackup, (again) => again.finish());
        await completed(child, async () => undefined);
      });
    });

    test('is made with a checkpoint where the last one is long ago, or does not make torn pages whole', async () => {
      const parent = await nursery.plant(major);
      await withServer(parent, { ...SETTINGS, shared_buffers: '16MB' }, async (open) => {
        await using session = await open('postgres');
        const backup = await WAYS['without a checkpoint']!(open, parent.path);
        await backup.abandon();
        await session.query(
          "SELECT pg_logical_emit_message(false, 'a', repeat('x', 1048576)) FROM generate_series(1, 64)",
        );
        assert.equal(await startBackupWithoutCheckpoint(open, parent.path), undefined);
        await session.query('ALTER SYSTEM SET full_page_writes = off');
        await session.query('SELECT pg_reload_conf()');
        await until(
          () => ask<string>(session, 'SHOW full_page_writes'),
          (value) => value === 'off',
        );
        await session.query('CHECKPOINT');
        await session.query('CHECKPOINT');
        assert.equal(await startBackupWithoutCheckpoint(open, parent.path), undefined);
        assert.equal(await ask(session, 'SELECT count(*)::int FROM pg_replication_slots'), 0);
      });
    });

    test('whose control file was torn gets a whole one', async () => {
      const parent = await nursery.plant(major);
      await withServer(parent, SETTINGS, async (open) => {
        const { child } = await backUp(parent, open, startBackup, async (backup, copied) => {
          const file = await openFile(join(copied.path, 'global/pg_control'), 'r+');
          await file.write(Buffer.alloc(8, 0xff), 0, 8, 40);
          await file.close();
          return backup.finish();
        });
        await completed(child, async () => undefined);
      });
    });
  });

  test(`a clone of a stopped server on ${major} starts without what is left out`, async () => {
    const parent = await nursery.plant(major);
    await withServer(parent, { ...SETTINGS, archive_mode: 'on', archive_command: '' }, async (open) => {
      await using session = await open(TEMPLATE_DATABASE);
      await session.query('CREATE TABLE public.t AS SELECT 1 AS n');
      await session.query('SELECT pg_switch_wal()');
    });
    assert.notDeepEqual(await readdir(join(parent.path, 'pg_wal/archive_status')), []);
    const child = await copyFiles(parent, {
      random: () => 0,
      pause: async () => undefined,
      selection: CLONE_OF_STOPPED,
    });
    await cleanChildFiles(child.path);
    assert.deepEqual(await readdir(join(child.path, 'pg_wal/archive_status')), []);
    assert.equal(await needsQuietStart(child.path, { hasScheduler: false }), false);
    await completed(child, async (session) => assert.equal(await ask(session, 'SELECT n FROM public.t'), 1));
  });
}

/** A whole backup of a server: files, end, completion. `copied` runs when the files are there and gives the end. */
async function backUp(
  parent: Cluster,
  open: OpenSession,
  start: Start,
  copied: (backup: Backup, child: Cluster) => Promise<BackupEnd>,
): Promise<{ child: Cluster; end: BackupEnd }> {
  const backup = await start(open, parent.path);
  try {
    const child = await copyFiles(parent, { random: () => 0, pause: async () => undefined });
    const end = await copied(backup, child);
    await completeClone(parent.path, child.path, end);
    await cleanChildFiles(child.path);
    return { child, end };
  } finally {
    await backup.abandon();
  }
}

/** The clone starts, and answers. */
async function completed(child: Cluster, use: (session: Session) => Promise<void>): Promise<void> {
  await withServer(child, SETTINGS, async (open) => {
    await using session = await open(TEMPLATE_DATABASE);
    await use(session);
  });
}
