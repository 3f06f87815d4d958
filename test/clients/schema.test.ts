import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { BOOTSTRAP_KEY, removeDataDirectory, startCoppice, type TestCoppice } from '../support/coppice.ts';
import { connect, query } from '../support/customer.ts';
import { createLiveProject } from '../support/live-project.ts';
import { type Neonctl, openNeonctl } from '../support/neonctl.ts';
import { assertInContract } from '../support/openapi-contract.ts';

const SHOP = `
  CREATE TYPE mood AS ENUM ('sad', 'fine');
  CREATE TABLE customers (id int PRIMARY KEY, email varchar(80) NOT NULL UNIQUE, mood mood DEFAULT 'fine');
  CREATE TABLE orders (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    customer_id int NOT NULL REFERENCES customers (id),
    net numeric(10,2), gross numeric(10,2) GENERATED ALWAYS AS (net * 1.19) STORED
  );
  CREATE VIEW open_orders AS SELECT * FROM orders WHERE net > 0;
  INSERT INTO customers VALUES (1, 'a@example.test')`;

describe('the schema of a branch', { timeout: 300_000 }, () => {
  let coppice: TestCoppice;
  let neonctl: Neonctl;

  const get = async (path: string) => {
    const { status, body } = await coppice.call('GET', path);
    assertInContract({ method: 'GET', url: `/api/v2${path}`, status, body });
    return { status, body };
  };

  before(async () => {
    coppice = await startCoppice();
    neonctl = await openNeonctl({ api_port: coppice.api_port, key: BOOTSTRAP_KEY });
  });
  after(async () => {
    await coppice?.stop();
    if (coppice) await removeDataDirectory(coppice.data_directory);
    await neonctl?.remove();
  });

  it('is told as it was at a point, too, and compared with what it is', async () => {
    const project = await createLiveProject(coppice);
    await query(project.uri, 'create table before_all (id int)');
    const [{ lsn }] = await query(project.uri, 'select pg_current_wal_insert_lsn()::text as lsn');
    await query(project.uri, 'drop table before_all; create table later (id int)');
    const path = `${project.branch_path}/schema?db_name=${project.database}`;
    const then = await get(`${path}&lsn=${encodeURIComponent(lsn)}`);
    assert.deepEqual(
      [/before_all/, /later/].map((name) => name.test(then.body.sql)),
      [true, false],
    );
    const now = await get(path);
    assert.deepEqual(
      [/before_all/, /later/].map((name) => name.test(now.body.sql)),
      [false, true],
    );
    const base = `base_branch_id=${project.branch_id}&base_lsn=${encodeURIComponent(lsn)}`;
    const { body } = await get(`${project.branch_path}/compare_schema?db_name=${project.database}&${base}`);
    assert.match(body.diff, /^-CREATE TABLE public.before_all/m);
    assert.match(body.diff, /^\+CREATE TABLE public.later/m);
    assert.equal((await get(`${path}&lsn=FFFF/0`)).status, 400);
    assert.equal((await get(`${path}&lsn=0/1&timestamp=2026-01-01T00:00:00Z`)).status, 400);
  });

  for (const pg_version of [16, 17, 18]) {
    it(`is shown, compared and followed by neonctl on ${pg_version}`, async () => {
      const project = await createLiveProject(coppice, { pg_version });
      await query(project.uri, SHOP);
      const child = await coppice.must('POST', `${project.path}/branches`, {
        branch: { name: 'preview' },
        endpoints: [{ type: 'read_write' }],
      });
      await coppice.settled(project.id);
      const schemaOf = (branch: string, more = '') =>
        get(`${project.path}/branches/${branch}/schema?db_name=${project.database}${more}`);

      const before = await schemaOf(child.branch.id);
      assert.equal(before.status, 200);
      assert.match(before.body.sql, /CREATE TABLE public\.customers \(\n {4}id integer NOT NULL,/);
      assert.match(before.body.sql, /CREATE VIEW public\.open_orders AS/);
      assert.doesNotMatch(before.body.sql, /a@example\.test/);
      const compare = `${project.path}/branches/${child.branch.id}/compare_schema?db_name=${project.database}`;
      assert.deepEqual((await get(compare)).body, { diff: '' });

      const [connection] = child.connection_uris;
      await query(connection.connection_uri, 'ALTER TABLE customers ADD COLUMN since date');
      await project.suspend();
      const { diff } = (await get(compare)).body;
      assert.match(diff, /^--- a\/neondb\n\+\+\+ b\/neondb\n@@ /);
      assert.match(diff, /^\+ {4}since date$/m);
      assert.equal(await project.state(), 'active');

      const printed = await neonctl.run('branches', 'schema-diff', 'main', 'preview', '--project-id', project.id);
      assert.match(printed, /^\+ {4}since date$/m);

      const { tables } = (await schemaOf(child.branch.id, '&format=json')).body.json;
      assert.deepEqual(
        tables.map((table: { name: string }) => table.name),
        ['customers', 'orders'],
      );
      assert.deepEqual(tables[1], {
        schema: 'public',
        name: 'orders',
        columns: [
          { name: 'id', type: 'bigint', nullable: false, generated: false },
          { name: 'customer_id', type: 'integer', nullable: false, generated: false },
          { name: 'net', type: 'numeric(10,2)', nullable: true, generated: false },
          { name: 'gross', type: 'numeric(10,2)', nullable: true, generated: true },
        ],
        constraints: [
          { type: 'primary_key', name: 'orders_pkey', columns: ['id'] },
          {
            type: 'foreign_key',
            name: 'orders_customer_id_fkey',
            columns: ['customer_id'],
            referenced_table: { schema: 'public', table: 'customers', columns: ['id'] },
          },
        ],
      });
      // The role that read is nobody's business.
      const { roles } = (await get(`${project.path}/branches/${child.branch.id}/roles`)).body;
      assert.deepEqual(
        roles.map(({ name }: { name: string }) => name),
        [project.role],
      );
    });
  }

  it('is all that a branch takes over that neonctl makes so', async () => {
    const project = await createLiveProject(coppice);
    await query(project.uri, SHOP);
    const how = ['--name', 'empty', '--schema-only', '--output', 'json', '--project-id', project.id];
    const { branch } = JSON.parse(await neonctl.run('branches', 'create', ...how));
    assert.deepEqual([branch.init_source, branch.parent_id], ['schema-only', undefined]);
    await coppice.settled(project.id);
    const printed = await neonctl.run('branches', 'schema-diff', 'main', 'empty', '--project-id', project.id);
    assert.doesNotMatch(printed, /^[+-] /m);
    const target = `branch_id=${branch.id}&database_name=${project.database}&role_name=${project.role}`;
    const { uri } = await coppice.must('GET', `${project.path}/connection_uri?${target}`);
    assert.deepEqual(await query(uri, 'SELECT count(*)::int AS n FROM customers'), [{ n: 0 }]);
  });

  it('is judged, of the database that is meant', async () => {
    const project = await createLiveProject(coppice);
    await query(project.uri, `${SHOP}; CREATE TABLE notes (id int); GRANT SELECT ON notes TO PUBLIC`);
    await project.suspend();
    const issues = async (search = '') => (await get(`${project.path}/advisors?${search}`)).body.issues;
    const all = await issues();
    assert.deepEqual(
      all.map(({ name, level, detail }: Record<string, string>) => [name, level, detail]),
      [
        ['no_primary_key', 'INFO', 'Table `public.notes` has no primary key.'],
        [
          'rls_disabled_in_public',
          'ERROR',
          'Table `public.notes` is granted to everybody, and row-level security is not enabled.',
        ],
        [
          'unindexed_foreign_keys',
          'INFO',
          'Table `public.orders` has the foreign key `orders_customer_id_fkey` on (customer_id), which no index begins with.',
        ],
      ],
    );
    assert.deepEqual(await issues('min_severity=WARN'), [all[1]]);
    assert.deepEqual(await issues('category=PERFORMANCE'), [all[0], all[2]]);
    assert.deepEqual(await issues(`branch_id=${project.branch_id}&database_name=${project.database}`), all);
    assert.equal((await get(`${project.path}/advisors?database_name=nothing`)).status, 404);
    await coppice.must('POST', `${project.branch_path}/databases`, {
      database: { name: 'third', owner_name: project.role },
    });
    await coppice.settled(project.id);
    const unclear = await get(`${project.path}/advisors`);
    assert.equal(unclear.status, 400);
    assert.match(unclear.body.message, /field:"database_name", problem:"is needed, since the branch has \d databases"/);
    assert.deepEqual(await issues('database_name=third'), []);
  });

  it('is read of a thousand tables, by several at once', async () => {
    const project = await createLiveProject(coppice);
    await query(
      project.uri,
      `DO $$ BEGIN FOR i IN 1..1000 LOOP
         EXECUTE format('CREATE TABLE t%s (id bigint PRIMARY KEY, a text NOT NULL UNIQUE, b timestamptz DEFAULT now())', i);
       END LOOP; END $$`,
    );
    const path = `${project.branch_path}/schema?db_name=${project.database}`;
    const answers = await Promise.all([get(path), get(path), get(`${path}&format=json`)]);
    assert.deepEqual(
      answers.map(({ status }) => status),
      [200, 200, 200],
    );
    assert.equal(answers[0].body.sql.match(/^CREATE TABLE /gm).length, 1000);
    assert.equal(answers[0].body.sql, answers[1].body.sql);
    assert.equal(answers[2].body.json.tables.length, 1000);
  });

  it('is refused where it cannot be read', async () => {
    const project = await createLiveProject(coppice);
    const bare = await coppice.must('POST', `${project.path}/branches`, { branch: { name: 'bare' } });
    await coppice.settled(project.id);
    const statusOf = async (path: string) => (await get(`${project.path}/branches/${path}`)).status;
    assert.equal(await statusOf(`${project.branch_id}/schema?db_name=nothing`), 404);
    assert.equal(await statusOf(`${project.branch_id}/schema`), 400);
    assert.equal(await statusOf(`${project.branch_id}/schema?db_name=neondb&format=xml`), 400);
    assert.equal(await statusOf(`${bare.branch.id}/schema?db_name=neondb`), 422);
    assert.equal(await statusOf(`${project.branch_id}/compare_schema?db_name=neondb`), 400);
    // A lock of the customer's holds a reading up, not for ever.
    await using client = await connect(project.uri);
    await client.query('CREATE TABLE locked (id int)');
    await client.query('BEGIN; LOCK TABLE locked');
    const { status, body } = await get(`${project.branch_path}/schema?db_name=neondb`);
    assert.equal(status, 422);
    assert.match(body.message, /lock/);
  });

  it('is read by a role that a customer cannot use, nor make first', async () => {
    const project = await createLiveProject(coppice);
    await query(project.uri, 'CREATE ROLE coppice_schema_reader LOGIN');
    const path = `${project.branch_path}/schema?db_name=neondb`;
    assert.match((await get(path)).body.message, /coppice_schema_reader is in the way/);
    await query(project.uri, 'DROP ROLE coppice_schema_reader');
    assert.equal((await get(path)).status, 200);
    for (const statement of [
      'SET ROLE coppice_schema_reader',
      'GRANT coppice_schema_reader TO CURRENT_USER',
      "ALTER ROLE coppice_schema_reader PASSWORD 'known'",
      'DROP ROLE coppice_schema_reader',
    ]) {
      await assert.rejects(query(project.uri, statement), statement);
    }
  });
});

describe('a branch that takes over a schema and no data', { timeout: 300_000 }, () => {
  let coppice: TestCoppice;
  before(async () => {
    coppice = await startCoppice();
  });
  after(async () => {
    await coppice?.stop();
    await removeDataDirectory(coppice.data_directory);
  });

  const schemaOnly = async (path: string, more: object = {}) =>
    coppice.must('POST', `${path}/branches`, {
      branch: { name: 'empty', init_source: 'schema-only', ...more },
      endpoints: [{ type: 'read_write' }],
    });

  it('takes over the schema of a point, and nothing that came later', async () => {
    const project = await createLiveProject(coppice);
    await query(project.uri, 'create table before_all (id int)');
    const [{ lsn }] = await query(project.uri, 'select pg_current_wal_insert_lsn()::text as lsn');
    await query(project.uri, 'drop table before_all; create table later (id int)');
    const { branch } = await schemaOnly(project.path, { name: 'as it was', parent_lsn: lsn });
    await coppice.settled(project.id);
    const target = `branch_id=${branch.id}&database_name=${project.database}&role_name=${project.role}`;
    const { uri } = await coppice.must('GET', `${project.path}/connection_uri?${target}`);
    const tables = "select relname from pg_class where relnamespace = 'public'::regnamespace and relkind = 'r'";
    assert.deepEqual(await query(uri, tables), [{ relname: 'before_all' }]);
  });

  for (const pg_version of [16, 17, 18]) {
    it(`is a root branch with the roles, passwords, databases and schemas of its source on ${pg_version}`, async () => {
      const project = await createLiveProject(coppice, { pg_version });
      await query(project.uri, SHOP);
      for (const statement of [
        "CREATE ROLE clerk LOGIN PASSWORD 'a password that nobody guesses 1' IN ROLE pg_monitor",
        'ALTER ROLE clerk SET search_path TO sales, public',
        'CREATE ROLE books NOLOGIN',
        'GRANT clerk, books TO CURRENT_USER',
        'CREATE SCHEMA sales AUTHORIZATION books',
        'GRANT USAGE ON SCHEMA sales TO clerk',
        'SET ROLE books; CREATE TABLE sales.ledger (id int PRIMARY KEY); GRANT SELECT ON sales.ledger TO clerk',
        // Owned by somebody who could not make it where it is.
        'CREATE TABLE notes (id int REFERENCES customers); GRANT CREATE ON SCHEMA public TO clerk',
        'ALTER TABLE notes OWNER TO clerk; REVOKE CREATE ON SCHEMA public FROM clerk',
        // Owned by somebody who has no way to it, and led to by a key.
        'CREATE SCHEMA closed; CREATE TABLE closed.t (id int PRIMARY KEY, note int REFERENCES customers)',
        'GRANT ALL ON SCHEMA closed TO clerk; ALTER TABLE closed.t OWNER TO clerk',
        'SET ROLE clerk; GRANT SELECT ON closed.t TO books; RESET ROLE; REVOKE ALL ON SCHEMA closed FROM clerk',
        'CREATE EXTENSION pg_trgm',
        'CREATE INDEX ON customers USING gin (email gin_trgm_ops)',
        "CREATE FUNCTION many() RETURNS text LANGUAGE sql BEGIN ATOMIC SELECT CASE WHEN true THEN ';' END; SELECT 'x' AS x; END",
        "CREATE FUNCTION odd() RETURNS text LANGUAGE plpgsql AS $f$ BEGIN RETURN ';\nSET SESSION AUTHORIZATION ''clerk'';\n'; END $f$",
        'CREATE DATABASE other',
      ]) {
        await using client = await connect(project.uri);
        for (const one of statement.includes('BEGIN') ? [statement] : statement.split('; ')) await client.query(one);
      }
      const created = await schemaOnly(project.path);
      assert.equal(created.branch.parent_id, undefined);
      assert.equal(created.branch.init_source, 'schema-only');
      assert.deepEqual(
        created.operations.map(({ action }: { action: string }) => action),
        ['create_branch', 'apply_schema_from_branch', 'start_compute'],
      );
      await coppice.settled(project.id);
      const path = `${project.path}/branches/${created.branch.id}`;
      assert.equal((await coppice.must('GET', path)).branch.current_state, 'ready');
      // The same password as on the source.
      const target = `branch_id=${created.branch.id}&database_name=neondb&role_name=${project.role}`;
      const { uri } = await coppice.must('GET', `${project.path}/connection_uri?${target}`);
      assert.equal(new URL(uri).password, new URL(project.uri).password);
      assert.deepEqual(await query(uri, 'SELECT count(*)::int AS n FROM customers'), [{ n: 0 }]);
      assert.deepEqual(await query(uri, 'SELECT many() AS a, odd() ~ $1 AS b', ['clerk']), [{ a: 'x', b: true }]);

      const sql = async (branch: string) =>
        (await coppice.must('GET', `${project.path}/branches/${branch}/schema?db_name=neondb`)).sql;
      assert.equal(await sql(created.branch.id), await sql(project.branch_id));
      const roles = `
        SELECT rolname, rolcanlogin, rolcreatedb, rolconnlimit, rolconfig FROM pg_roles WHERE rolname !~ '^pg_' ORDER BY 1`;
      assert.deepEqual(await query(uri, roles), await query(project.uri, roles));
      const clerk = new URL(uri);
      clerk.username = 'clerk';
      clerk.password = encodeURIComponent('a password that nobody guesses 1');
      assert.deepEqual(await query(clerk.href, 'SELECT count(*)::int AS n FROM ledger'), [{ n: 0 }]);
      clerk.pathname = '/other';
      assert.deepEqual(await query(clerk.href, 'SELECT 1 AS n'), [{ n: 1 }]);
      // It lives on by itself: two servers never take each other's log for their own.
      const identity = 'SELECT system_identifier FROM pg_control_system()';
      assert.notDeepEqual(await query(uri, identity), await query(project.uri, identity));
    });
  }
});
