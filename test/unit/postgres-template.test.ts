import assert from 'node:assert/strict';
import { lstat, mkdir, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { readControlFile } from '../../src/postgres/control-file.ts';
import { fillTemplate, TEMPLATE_DATABASE, TEMPLATE_ROLE } from '../../src/postgres/template.ts';
import { type Cluster, MAJORS, type Nursery, openNursery, withServer } from '../support/postgres.ts';

let nursery: Nursery;
before(async () => {
  nursery = await openNursery();
});
after(() => nursery[Symbol.asyncDispose]());

async function ask(cluster: Cluster, database: string, query: string): Promise<Record<string, unknown>[]> {
  return withServer(cluster, {}, async (open) => {
    await using session = await open(database);
    return (await session.query(query)).rows;
  });
}

for (const major of MAJORS) {
  describe(`the template of ${major}`, () => {
    test('is a stopped data directory, small, with checksums and short WAL segments, and without configuration', async () => {
      const { path } = await nursery.plant(major);
      const control = await readControlFile(path);
      assert.equal(control.state, 'shut down');
      assert.equal(control.dataChecksums, true);
      assert.equal(control.walSegmentBytes, 1024 * 1024);
      let bytes = 0;
      for (const entry of await readdir(path, { recursive: true, withFileTypes: true })) {
        if (entry.isFile()) bytes += (await lstat(join(entry.parentPath, entry.name))).size;
      }
      assert.ok(bytes < 33_000_000, `${bytes} bytes`);
      const names = await readdir(path);
      for (const name of ['postgresql.conf', 'pg_hba.conf', 'pg_ident.conf', 'postmaster.pid', 'postmaster.opts']) {
        assert.ok(!names.includes(name), name);
      }
    });

    test('orders texts alike on every machine', async () => {
      const [row] = await ask(
        await nursery.plant(major),
        TEMPLATE_DATABASE,
        `SELECT datlocprovider, pg_encoding_to_char(encoding) AS encoding, 'Ä' ~ '^[[:alpha:]]$' AS letter, lower('Ä') AS lower
           FROM pg_database WHERE datname = current_database()`,
      );
      assert.deepEqual(row, { datlocprovider: major >= 17 ? 'b' : 'c', encoding: 'UTF8', letter: true, lower: 'ä' });
    });

    test('holds the group, the owner and the database as the public platform has them', async () => {
      const cluster = await nursery.plant(major);
      const roles = await ask(
        cluster,
        'postgres',
        `SELECT rolname, rolsuper, rolcanlogin, rolcreaterole, rolcreatedb, rolreplication, rolbypassrls, rolpassword,
                ARRAY(SELECT g.rolname::text || CASE WHEN admin_option THEN '+' ELSE '' END FROM pg_auth_members m
                        JOIN pg_authid g ON g.oid = m.roleid WHERE m.member = a.oid ORDER BY 1) AS member_of,
                oid >= 16384 AS dumped
           FROM pg_authid a WHERE rolname !~ '^pg_' AND rolname <> 'cloud_admin' ORDER BY rolname`,
      );
      const own = { rolsuper: false, rolcreaterole: true, rolcreatedb: true, rolreplication: true, rolbypassrls: true };
      const subscription = major < 18 ? ['pg_create_subscription'] : [];
      assert.deepEqual(roles, [
        {
          rolname: 'neon_superuser',
          ...own,
          rolcanlogin: false,
          rolpassword: null,
          member_of: [...subscription, 'pg_monitor+', 'pg_read_all_data', 'pg_signal_backend+', 'pg_write_all_data'],
          dumped: true,
        },
        {
          rolname: TEMPLATE_ROLE,
          ...own,
          rolcanlogin: true,
          rolpassword: null,
          member_of: ['neon_superuser'],
          dumped: true,
        },
      ]);
      const databases = await ask(
        cluster,
        'postgres',
        `SELECT datname, pg_get_userbyid(datdba) AS owner, oid >= 16384 AS dumped,
                has_database_privilege('neon_superuser', datname, 'CREATE, CONNECT, TEMPORARY') AS granted
           FROM pg_database WHERE NOT datistemplate AND datname <> 'postgres'`,
      );
      assert.deepEqual(databases, [{ datname: TEMPLATE_DATABASE, owner: TEMPLATE_ROLE, dumped: true, granted: true }]);
    });

    test('hands its grants to databases made later', async () => {
      const cluster = await nursery.plant(major);
      await withServer(cluster, {}, async (open) => {
        await using postgres = await open('postgres');
        await postgres.query(`CREATE DATABASE later OWNER ${TEMPLATE_ROLE}`);
        for (const database of [TEMPLATE_DATABASE, 'later']) {
          await using session = await open(database);
          const { rows } = await session.query(
            `SELECT has_function_privilege('neon_superuser', 'pg_show_replication_origin_status()', 'EXECUTE') AS origins,
                    has_function_privilege('neon_superuser', 'pg_log_standby_snapshot()', 'EXECUTE') AS snapshots,
                    has_schema_privilege('${TEMPLATE_ROLE}', 'public', 'CREATE') AS schema`,
          );
          assert.deepEqual(rows, [{ origins: true, snapshots: true, schema: true }], database);
          await session.query('CREATE TABLE public.of_the_platform (); CREATE SEQUENCE public.numbers');
          const grants = await session.query(
            `SELECT has_table_privilege('neon_superuser', 'public.of_the_platform', 'SELECT WITH GRANT OPTION') AS "table",
                    has_sequence_privilege('neon_superuser', 'public.numbers', 'USAGE WITH GRANT OPTION') AS sequence`,
          );
          assert.deepEqual(grants.rows, [{ table: true, sequence: true }], database);
        }
      });
    });
  });
}

test('a directory that is not empty is left as it is', async () => {
  const { distribution } = await nursery.plant(17);
  const path = nursery.newPath();
  await mkdir(join(path, 'something'), { recursive: true });
  await assert.rejects(fillTemplate(distribution, path), /not empty/);
  assert.deepEqual(await readdir(path), ['something']);
});

test('every file belongs to the owner that was given', async (context) => {
  if (process.getuid?.() !== 0) return context.skip('without root everything belongs to one user');
  const { distribution } = await nursery.plant(17);
  const path = nursery.newPath();
  await mkdir(path, { mode: 0o700 });
  await fillTemplate(distribution, path, { uid: 990_001, gid: 990_002 });
  for (const entry of await readdir(path, { recursive: true, withFileTypes: true })) {
    const { uid, gid } = await lstat(join(entry.parentPath, entry.name));
    assert.deepEqual([uid, gid], [990_001, 990_002], entry.name);
  }
  assert.equal((await lstat(path)).uid, 990_001);
});
