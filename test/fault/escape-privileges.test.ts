import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import pg from 'pg';
import { type Customer, type CustomerCompute, openCustomerComputes } from '../support/customer-computes.ts';
import { MAJORS } from '../support/postgres.ts';

/**
 * What a customer tries from SQL to become more than a customer or to reach the machine. The role is one made through
 * the API, the most that a customer has; each line must be refused with the error that says why.
 */
type Attempt = readonly [sql: string, refusal: RegExp];

const denied =
  /permission denied|must be (superuser|owner|able)|must inherit|Only roles with|only superuser|not allowed|cannot be executed/i;

const ROLES: readonly Attempt[] = [
  ['ALTER ROLE neondb_owner SUPERUSER', denied],
  ['CREATE ROLE evil SUPERUSER', denied],
  ['ALTER ROLE neon_superuser SUPERUSER', denied],
  ['ALTER ROLE neon_superuser LOGIN', denied],
  ["ALTER ROLE neon_superuser PASSWORD 'x'", denied],
  ['ALTER ROLE neon_superuser RENAME TO mine', denied],
  ['DROP ROLE neon_superuser', denied],
  ['GRANT neon_superuser TO neondb_owner WITH ADMIN OPTION', denied],
  ["ALTER ROLE cloud_admin PASSWORD 'x'", denied],
  ['ALTER ROLE cloud_admin NOLOGIN', denied],
  ["ALTER ROLE cloud_admin SET work_mem = '1GB'", denied],
  ["ALTER ROLE ALL SET search_path = 'public'", denied],
  ['ALTER ROLE cloud_admin RENAME TO mine', denied],
  ['DROP ROLE cloud_admin', denied],
  ['GRANT cloud_admin TO neondb_owner', denied],
  ['SET ROLE cloud_admin', denied],
  ['SET SESSION AUTHORIZATION cloud_admin', denied],
  ['REASSIGN OWNED BY cloud_admin TO neondb_owner', denied],
  ['DROP OWNED BY cloud_admin', denied],
  ['CREATE DATABASE evil OWNER cloud_admin', denied],
  ['ALTER DATABASE neondb OWNER TO cloud_admin', denied],
  ['ALTER DATABASE template1 OWNER TO neondb_owner', denied],
  ["ALTER DATABASE postgres SET role = 'neondb_owner'", denied],
  ['CREATE SCHEMA evil AUTHORIZATION cloud_admin', denied],
  ['CREATE TABLE mine (); ALTER TABLE mine OWNER TO cloud_admin', denied],
  ["UPDATE pg_authid SET rolsuper = true WHERE rolname = 'neondb_owner'", denied],
  ['INSERT INTO pg_auth_members SELECT 999999, 10, 10, 10, true, true, true', denied],
  ['UPDATE pg_database SET datdba = 10', denied],
  ['UPDATE pg_proc SET proowner = 10', denied],
  ['SET session_replication_role = replica', denied],
  ["SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'cloud_admin'", denied],
  ['CREATE EVENT TRIGGER evil ON ddl_command_end EXECUTE FUNCTION tsvector_update_trigger()', denied],
];

/** The server's own roles; those that `neon_superuser` may hand out are not in it. */
const SERVER_ROLES = [
  'pg_execute_server_program',
  'pg_read_server_files',
  'pg_write_server_files',
  'pg_checkpoint',
  'pg_use_reserved_connections',
  'pg_maintain',
  'pg_create_subscription',
  'pg_signal_autovacuum_worker',
  'pg_read_all_data',
  'pg_write_all_data',
];

const FILES: readonly Attempt[] = [
  ["COPY (SELECT 1) TO '/tmp/evil'", denied],
  ["CREATE TABLE t1 (x text); COPY t1 FROM '/etc/passwd'", denied],
  ["COPY (SELECT 1) TO PROGRAM 'id'", denied],
  ["CREATE TABLE t2 (x text); COPY t2 FROM PROGRAM 'id'", denied],
  ["SELECT lo_import('/etc/passwd')", denied],
  ["SELECT lo_export(lo_create(0), '/tmp/evil')", denied],
  ["SELECT pg_read_file('/etc/passwd')", denied],
  ["SELECT pg_read_file('postmaster.pid')", denied],
  ["SELECT pg_read_binary_file('global/pg_control')", denied],
  ["SELECT pg_ls_dir('/')", denied],
  ["SELECT pg_stat_file('/etc/passwd')", denied],
  ['SELECT pg_hba_file_rules()', denied],
  ['SELECT pg_show_all_file_settings()', denied],
  ["CREATE TABLESPACE evil LOCATION '/tmp'", denied],
  ["SET allow_in_place_tablespaces = on; CREATE TABLESPACE evil LOCATION ''", denied],
  ["LOAD '/tmp/evil.so'", denied],
  ["LOAD '$libdir/pgcrypto'", denied],
  ['SELECT pg_reload_conf()', denied],
  ['SELECT pg_rotate_logfile()', denied],
  ['SELECT pg_promote()', denied],
  ['SELECT pg_switch_wal()', denied],
  ["SELECT pg_backup_start('evil')", denied],
  ["SELECT pg_create_restore_point('evil')", denied],
];

const CODE: readonly Attempt[] = [
  ["CREATE FUNCTION evil() RETURNS int LANGUAGE c AS 'libc.so.6', 'system'", denied],
  ["CREATE FUNCTION evil() RETURNS int LANGUAGE internal AS 'pg_read_file'", denied],
  ['CREATE LANGUAGE plpython3u', /extension.*is not available|does not exist|permission denied/],
  ['CREATE LANGUAGE evil HANDLER plpgsql_call_handler', denied],
  ['CREATE FOREIGN DATA WRAPPER evil', denied],
  ['CREATE ACCESS METHOD evil TYPE INDEX HANDLER bthandler', denied],
  ['CREATE OPERATOR CLASS evil FOR TYPE int4 USING btree AS STORAGE int4', denied],
  ['CREATE TYPE evil (INPUT = int4in, OUTPUT = int4out)', /must be superuser|does not exist|permission denied/],
  ['CREATE TEXT SEARCH TEMPLATE evil (LEXIZE = dsimple_lexize)', denied],
];

const SETTINGS: readonly Attempt[] = [
  ["ALTER SYSTEM SET archive_command = 'id'", denied],
  ['ALTER SYSTEM RESET ALL', denied],
  ...[
    ['archive_command', 'id'],
    ['archive_library', 'basic_archive'],
    ['restore_command', 'id'],
    ['ssl_passphrase_command', 'id'],
    ['shared_preload_libraries', 'x'],
    ['data_directory', '/tmp'],
    ['config_file', '/tmp/x'],
    ['hba_file', '/tmp/x'],
    ['unix_socket_directories', '/tmp'],
    ['listen_addresses', '*'],
    ['fsync', 'off'],
    ['full_page_writes', 'off'],
    ['wal_recycle', 'on'],
    ['primary_conninfo', 'host=x'],
    ['log_directory', '/tmp'],
    ['session_preload_libraries', 'x'],
    ['dynamic_library_path', '/tmp'],
    ['jit_provider', '/tmp/x'],
    ['track_activities', 'off'],
    ['log_statement', 'all'],
    ['log_min_duration_statement', '0'],
    ['temp_file_limit', '-1'],
    ['zero_damaged_pages', 'on'],
    ['max_stack_depth', '100kB'],
  ].flatMap(([name, value]): Attempt[] =>
    [
      `SET ${name} = '${value}'`,
      `ALTER DATABASE neondb SET ${name} = '${value}'`,
      `ALTER ROLE neondb_owner SET ${name} = '${value}'`,
    ].map((sql) => [sql, /permission denied|cannot be (changed|set)/]),
  ),
];

const FORBIDDEN_EXTENSIONS = [
  ...['file_fdw', 'plpython3u', 'plperl', 'plperlu', 'pltcl', 'pltclu', 'pageinspect', 'pg_surgery', 'adminpack'],
  ...['pg_walinspect', 'xml2', 'sslinfo', 'bool_plperlu', 'hstore_plpython3u', 'amcheck', '../../../tmp/evil'],
];

const computes = await openCustomerComputes();
after(() => computes[Symbol.asyncDispose]());

async function refuse(customer: Customer, attempts: readonly Attempt[], as = ''): Promise<void> {
  for (const [sql, refusal] of attempts) {
    await customer.query('BEGIN');
    const outside = /^(ALTER SYSTEM|CREATE DATABASE|CREATE TABLESPACE)/.test(sql);
    if (outside) await customer.query('ROLLBACK');
    const answer = await customer.query(sql).then(
      () => 'it was done',
      (error: Error) => error.message,
    );
    await customer.query('ROLLBACK');
    assert.match(answer, refusal, `${as}${sql}`);
  }
}

for (const major of MAJORS) {
  describe(`a customer's role on ${major}`, () => {
    const started = computes.start(major);
    const each = (title: string, run: (customer: Customer, compute: CustomerCompute) => Promise<void>) =>
      test(title, async () => {
        const compute = await started;
        await using customer = await compute.connect();
        await run(customer, compute);
      });

    each('is no superuser, and gets no power over the platform or the server', async (customer) => {
      await refuse(customer, ROLES);
      for (const role of SERVER_ROLES) {
        await refuse(customer, [[`GRANT ${role} TO neondb_owner`, /permission denied|does not exist/]]);
      }
      const { rows } = await customer.query('SELECT rolname FROM pg_roles WHERE rolsuper');
      assert.deepEqual(rows, [{ rolname: 'cloud_admin' }]);
    });

    each('gets no further by a role that it made, or by its group', async (customer, compute) => {
      await customer.query("CREATE ROLE mid LOGIN CREATEROLE CREATEDB PASSWORD 'mid'");
      await customer.query('GRANT pg_monitor TO mid');
      await using mid = await compute.connect({ user: 'mid', password: 'mid' });
      await refuse(mid, [...ROLES, ...FILES, ...CODE], 'as mid: ');
      for (const role of [...SERVER_ROLES, 'neon_superuser']) {
        await refuse(mid, [[`GRANT ${role} TO mid`, /permission denied|does not exist/]], 'as mid: ');
        await refuse(customer, [[`GRANT ${role} TO mid`, /permission denied|does not exist/]]);
      }
      await customer.query('SET ROLE neon_superuser');
      await refuse(customer, [['ALTER ROLE neon_superuser SUPERUSER', denied], ...FILES, ...CODE], 'as the group: ');
      await customer.query('RESET ROLE');
    });

    each('reads and writes no file of the machine and runs no program', async (customer) => {
      await refuse(customer, FILES);
      assert.ok(!existsSync('/tmp/evil'));
    });

    each('brings no code into the server', async (customer) => {
      await refuse(customer, CODE);
    });

    each('changes no setting that is not its own', async (customer) => {
      await refuse(customer, SETTINGS);
    });

    each('creates what is on the list of extensions and nothing else', async (customer) => {
      for (const name of FORBIDDEN_EXTENSIONS) {
        await refuse(customer, [
          [`CREATE EXTENSION "${name}"`, /is not available|permission denied|invalid extension name/],
        ]);
      }
      const wanted = [
        'pg_stat_statements',
        'pg_trgm',
        'postgres_fdw',
        'uuid-ossp',
        'earthdistance',
        'pgstattuple',
        'bloom',
      ];
      for (const name of wanted) await customer.query(`CREATE EXTENSION "${name}" CASCADE`);
      await customer.query('SELECT pg_stat_statements_reset()');
      await customer.query('SELECT count(*) FROM pg_stat_statements');
      const { rows } = await customer.query("SELECT * FROM pgstattuple('pg_proc')");
      assert.equal(rows.length, 1);
      await customer.query('CREATE SERVER elsewhere FOREIGN DATA WRAPPER postgres_fdw');
      const statements = await customer.query("SELECT FROM pg_stat_statements WHERE query ~* 'password'");
      assert.equal(statements.rowCount, 0, 'statements that carry passwords are not kept');
      await customer.query(`DROP EXTENSION ${wanted.map((name) => `"${name}"`).join(', ')} CASCADE`);
    });

    each('streams the server nowhere but to itself', async (_, { socketDirectory, password, spec }) => {
      const target = join(spec.data_directory, 'streamed');
      const client = new pg.Client({
        host: socketDirectory,
        user: 'neondb_owner',
        password,
        database: 'neondb',
        replication: 'database',
      } as pg.ClientConfig);
      await client.connect();
      await assert.rejects(
        client.query(`BASE_BACKUP (TARGET 'server', TARGET_DETAIL '${target}')`),
        /permission denied|must be superuser or a role with privileges/,
      );
      await client.end();
      assert.ok(!existsSync(target));
    });
  });
}
