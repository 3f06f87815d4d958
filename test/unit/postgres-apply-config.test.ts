import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { createVerifier, formatVerifier } from '../../src/domain/scram-verifier.ts';
import { applyRolesAndDatabases, type DesiredConfig, type DesiredDatabase } from '../../src/postgres/apply-config.ts';
import { readDatabases } from '../../src/postgres/databases.ts';
import { type DesiredRole, readRoles } from '../../src/postgres/roles.ts';
import type { OpenSession } from '../../src/postgres/session.ts';
import { TEMPLATE_DATABASE, TEMPLATE_ROLE } from '../../src/postgres/template.ts';
import { admitCustomer, MAJORS, type Nursery, openNursery, withServer } from '../support/postgres.ts';

let nursery: Nursery;
const verifier = formatVerifier(await createVerifier('of-a-test'));
before(async () => {
  nursery = await openNursery();
});
after(() => nursery[Symbol.asyncDispose]());

const role = (name: string, rest: Partial<DesiredRole> = {}): DesiredRole => ({
  name,
  origin: 'api',
  verifier,
  can_login: true,
  deleted: false,
  ...rest,
});
const database = (id: number, name: string, owner_name: string, rest = {}): DesiredDatabase => ({
  id,
  name,
  owner_name,
  applied_name: null,
  deleted: false,
  ...rest,
});
const owner = role(TEMPLATE_ROLE);
const neondb = database(1, TEMPLATE_DATABASE, TEMPLATE_ROLE);

async function seen(open: OpenSession) {
  await using session = await open('postgres');
  const databases = (await readDatabases(session)).map(({ name, owner_name }) => `${name} of ${owner_name}`);
  return { roles: (await readRoles(session)).map(({ name }) => name), databases };
}

/** Which databases are there, by the table that each was given. */
async function contents(open: OpenSession): Promise<Record<string, string>> {
  await using postgres = await open('postgres');
  const found: Record<string, string> = {};
  for (const { name } of await readDatabases(postgres)) {
    await using session = await open(name);
    const { rows } = await session.query("SELECT relname FROM pg_class WHERE relname LIKE 'born_as_%'");
    found[name] = rows[0]?.relname ?? '';
  }
  return found;
}

async function mark(open: OpenSession, name: string, born: string): Promise<void> {
  await using session = await open(name);
  await session.query(`CREATE TABLE public.born_as_${born} ()`);
}

for (const major of MAJORS) {
  describe(`roles and databases on ${major}`, () => {
    test('a new volume takes over the names that a project wants', async () => {
      await withServer(await nursery.plant(major), {}, async (open) => {
        const wanted: DesiredConfig = {
          roles: [role('app_owner'), role('second')],
          databases: [database(1, 'app', 'app_owner'), database(2, 'extra', 'second')],
          rename: { role: TEMPLATE_ROLE, database: TEMPLATE_DATABASE },
        };
        for (let round = 0; round < 2; round++) {
          await applyRolesAndDatabases(open, wanted);
          assert.deepEqual(await seen(open), {
            roles: ['app_owner', 'second'],
            databases: ['app of app_owner', 'extra of second'],
          });
        }
      });
    });

    test("names that would break out of a statement are names and nothing else, like the customer's own roles", async () => {
      await withServer(await nursery.plant(major), {}, async (open) => {
        const nasty = ['a"; DROP ROLE cloud_admin; --', "b'); SELECT 1; --", 'ünï "c"', '-c x=y', 'd e\\'];
        const wanted: DesiredConfig = {
          roles: nasty.map((name) => role(name)),
          databases: nasty.map((name, index) => database(index + 1, name, name)),
        };
        await applyRolesAndDatabases(open, wanted);
        const { roles, databases } = await seen(open);
        for (const name of nasty) {
          assert.ok(roles.includes(name), name);
          assert.ok(databases.includes(`${name} of ${name}`), name);
        }
        await applyRolesAndDatabases(open, {
          roles: wanted.roles.map((one) => ({ ...one, deleted: true })),
          databases: wanted.databases.map((one) => ({ ...one, deleted: true })),
        });
        assert.deepEqual(await seen(open), {
          roles: [TEMPLATE_ROLE],
          databases: [`${TEMPLATE_DATABASE} of neondb_owner`],
        });
      });
    });

    test('a role made through the API has what the public platform gives it', async () => {
      await withServer(await nursery.plant(major), {}, async (open) => {
        await applyRolesAndDatabases(open, { roles: [role('app', { can_login: false })], databases: [] });
        await using session = await open('postgres');
        const { rows } = await session.query(
          `SELECT rolsuper, rolinherit, rolcreaterole, rolcreatedb, rolreplication, rolbypassrls, rolcanlogin
             FROM pg_roles WHERE rolname = 'app'`,
        );
        const yes = ['rolinherit', 'rolcreaterole', 'rolcreatedb', 'rolreplication', 'rolbypassrls'];
        assert.deepEqual(
          Object.keys(rows[0]).filter((name) => rows[0][name]),
          yes,
        );
        const [app] = (await readRoles(session)).filter(({ name }) => name === 'app');
        assert.deepEqual(app, { name: 'app', verifier, can_login: false, valid_until: null, privileged: true });
      });
    });

    test('whatever a customer does to keep a database, it can be dropped', async () => {
      await withServer(
        await nursery.plant(major),
        { wal_level: 'logical', max_prepared_transactions: '5' },
        async (open) => {
          await applyRolesAndDatabases(open, {
            roles: [owner],
            databases: [neondb, database(2, 'keep', TEMPLATE_ROLE)],
          });
          await using postgres = await open('postgres');
          const customer = await (await admitCustomer(postgres))({ database: 'keep' });
          await customer.query('CREATE TABLE t (id int primary key)');
          await customer.query("SELECT pg_create_logical_replication_slot('stays', 'pgoutput')");
          await customer.query("BEGIN; INSERT INTO t VALUES (1); PREPARE TRANSACTION 'stays; it''s mine'");
          if (major < 18) {
            await customer.query(
              `CREATE SUBSCRIPTION stays CONNECTION 'host=/nonexistent user=x password=y' PUBLICATION p
               WITH (connect = false, slot_name = 'elsewhere')`,
            );
          }
          await customer.query('ALTER DATABASE keep IS_TEMPLATE true');
          await customer.query('ALTER DATABASE keep CONNECTION LIMIT 0');
          const outside = await (await admitCustomer(postgres))();
          await outside.query('ALTER DATABASE keep ALLOW_CONNECTIONS false');
          await outside.end();
          const deleted = database(2, 'keep', TEMPLATE_ROLE, { applied_name: 'keep', deleted: true });
          await applyRolesAndDatabases(open, { roles: [owner], databases: [neondb, deleted] });
          assert.deepEqual((await seen(open)).databases, [`${TEMPLATE_DATABASE} of ${TEMPLATE_ROLE}`]);
          await customer.end().catch(() => undefined);
        },
      );
    });

    test('a dropped role leaves its objects to the owners of their databases, but never to a superuser', async () => {
      await withServer(await nursery.plant(major), {}, async (open) => {
        await applyRolesAndDatabases(open, { roles: [owner, role('leaver')], databases: [neondb] });
        await using postgres = await open('postgres');
        const connect = await admitCustomer(postgres);
        const leaver = await connect({ user: 'leaver' });
        await leaver.query('CREATE SCHEMA left_behind; CREATE TABLE left_behind.t ()');
        await leaver.query('CREATE ROLE made_by_leaver; GRANT pg_monitor TO made_by_leaver');
        {
          await using session = await open('postgres');
          await session.query('CREATE SCHEMA granted AUTHORIZATION leaver');
        }
        const inside = await connect({ user: 'leaver', database: 'postgres' });
        await inside.query(
          "CREATE FUNCTION granted.f() RETURNS text LANGUAGE sql SECURITY DEFINER AS 'SELECT current_user::text'",
        );
        await applyRolesAndDatabases(open, { roles: [owner, role('leaver', { deleted: true })], databases: [neondb] });
        assert.ok(!(await seen(open)).roles.includes('leaver'));
        await using session = await open(TEMPLATE_DATABASE);
        const kept = await session.query(
          "SELECT tableowner FROM pg_tables WHERE schemaname = 'left_behind' AND tablename = 't'",
        );
        assert.deepEqual(kept.rows, [{ tableowner: TEMPLATE_ROLE }]);
        const functions = await postgres.query("SELECT FROM pg_proc WHERE proname = 'f'");
        assert.equal(functions.rowCount, 0);
        for (const client of [leaver, inside]) await client.end().catch(() => undefined);
      });
    });
  });
}

describe('which database is which', () => {
  test('names may move along a chain or go round in a circle', async () => {
    await withServer(await nursery.plant(17), {}, async (open) => {
      const three = [database(1, 'a', TEMPLATE_ROLE), database(2, 'b', TEMPLATE_ROLE), database(3, 'c', TEMPLATE_ROLE)];
      await applyRolesAndDatabases(open, { roles: [owner], databases: three });
      for (const name of ['a', 'b', 'c']) await mark(open, name, name);
      const moved = ['b', 'c', 'a'].map((name, index) => ({
        ...three[index]!,
        name,
        applied_name: three[index]!.name,
      }));
      for (let round = 0; round < 2; round++) {
        await applyRolesAndDatabases(open, { roles: [owner], databases: moved });
        const { a, b, c } = await contents(open);
        assert.deepEqual([a, b, c], ['born_as_c', 'born_as_a', 'born_as_b'], `round ${round}`);
      }
    });
  });

  test('a name that was dropped and made again stands for the new one, however often this runs', async () => {
    await withServer(await nursery.plant(17), {}, async (open) => {
      const old = database(1, 'a', TEMPLATE_ROLE);
      await applyRolesAndDatabases(open, { roles: [owner], databases: [old] });
      await mark(open, 'a', 'old');
      const next = [{ ...old, applied_name: 'a', deleted: true }, database(2, 'a', TEMPLATE_ROLE)];
      await applyRolesAndDatabases(open, { roles: [owner], databases: next });
      await mark(open, 'a', 'new');
      await applyRolesAndDatabases(open, { roles: [owner], databases: next });
      assert.equal((await contents(open)).a, 'born_as_new');
    });
  });

  test('a database that the customer dropped in SQL stays dropped', async () => {
    await withServer(await nursery.plant(17), {}, async (open) => {
      const databases = [neondb, database(2, 'gone', TEMPLATE_ROLE)];
      await applyRolesAndDatabases(open, { roles: [owner], databases });
      await using postgres = await open('postgres');
      await postgres.query('DROP DATABASE gone');
      await applyRolesAndDatabases(open, { roles: [owner], databases });
      assert.deepEqual((await seen(open)).databases, [`${TEMPLATE_DATABASE} of ${TEMPLATE_ROLE}`]);
    });
  });
});

test('a password that the customer set in SQL is not set back', async () => {
  await withServer(await nursery.plant(17), {}, async (open) => {
    await applyRolesAndDatabases(open, { roles: [owner], databases: [neondb] });
    await using postgres = await open('postgres');
    const theirs = formatVerifier(await createVerifier('set in SQL'));
    await postgres.query(`ALTER ROLE ${TEMPLATE_ROLE} PASSWORD '${theirs}'`);
    await applyRolesAndDatabases(open, { roles: [{ ...owner, applied_verifier: verifier }], databases: [neondb] });
    assert.equal((await readRoles(postgres))[0]?.verifier, theirs);
    const anew = formatVerifier(await createVerifier('reset through the API'));
    const reset = { ...owner, verifier: anew, applied_verifier: verifier };
    await applyRolesAndDatabases(open, { roles: [reset], databases: [neondb] });
    assert.equal((await readRoles(postgres))[0]?.verifier, anew);
  });
});

test('only a SCRAM verifier is sent as a password', async () => {
  await withServer(await nursery.plant(17), {}, async (open) => {
    for (const wrong of ['plain text', 'md5e10adc3949ba59abbe56e057f20f883e', "SCRAM-SHA-256$4096:'; --$a:b"]) {
      const config = { roles: [{ ...owner, verifier: wrong }], databases: [] };
      await assert.rejects(applyRolesAndDatabases(open, config), (error: Error) => {
        assert.match(error.message, /not a SCRAM verifier/);
        return !error.message.includes(wrong);
      });
    }
  });
});

test('what does not last: a role with a validity, and one made in SQL that is gone', async () => {
  await withServer(await nursery.plant(17), {}, async (open) => {
    await using postgres = await open('postgres');
    await postgres.query(`CREATE ROLE theirs LOGIN VALID UNTIL '2030-01-02 03:04:05+00'`);
    await postgres.query(`CREATE ROLE forever VALID UNTIL 'infinity'`);
    const roles = [role('theirs', { origin: 'sql', deleted: false }), role('nobody_there', { origin: 'sql' })];
    await applyRolesAndDatabases(open, { roles, databases: [] });
    const found = new Map((await readRoles(postgres)).map((one) => [one.name, one]));
    assert.equal(found.get('theirs')?.valid_until?.toISOString(), '2030-01-02T03:04:05.000Z');
    assert.deepEqual([found.get('theirs')?.verifier, found.get('theirs')?.privileged], [verifier, false]);
    assert.equal(found.get('forever')?.valid_until, null);
    assert.equal(found.has('nobody_there'), false);
  });
});

test('killed before any statement, a second run ends where an unbroken one does', async () => {
  await withServer(await nursery.plant(17), { fsync: 'off' }, async (open) => {
    let finished = false;
    for (let allowed = 1; !finished; allowed++) {
      const { first, second, end } = configs(10 * allowed);
      await applyRolesAndDatabases(open, first);
      await mark(open, 'b', 'b');
      finished = await applyRolesAndDatabases(limited(open, allowed), second).then(
        () => true,
        (error) => {
          assert.match(error.message, /^killed$/);
          return false;
        },
      );
      await applyRolesAndDatabases(open, second);
      const { roles, databases } = await seen(open);
      assert.deepEqual(roles, ['joiner', TEMPLATE_ROLE], `killed after ${allowed} statements`);
      assert.deepEqual(databases, ['a of joiner', 'b of joiner', `${TEMPLATE_DATABASE} of ${TEMPLATE_ROLE}`]);
      assert.deepEqual(await contents(open), { a: 'born_as_b', b: '', [TEMPLATE_DATABASE]: '' });
      await applyRolesAndDatabases(open, end);
    }
  });
});

/** A drop, a rename to the name that was dropped, a new one under the name that was left; then back to the beginning. */
function configs(id: number): Record<'first' | 'second' | 'end', DesiredConfig> {
  return {
    first: {
      roles: [owner, role('leaver')],
      databases: [neondb, database(id, 'a', 'leaver'), database(id + 1, 'b', TEMPLATE_ROLE)],
    },
    second: {
      roles: [owner, role('leaver', { deleted: true }), role('joiner')],
      databases: [
        neondb,
        database(id, 'a', TEMPLATE_ROLE, { applied_name: 'a', deleted: true }),
        database(id + 1, 'a', 'joiner', { applied_name: 'b' }),
        database(id + 2, 'b', 'joiner'),
      ],
    },
    end: {
      roles: [owner, role('joiner', { deleted: true })],
      databases: [
        database(id + 1, 'a', 'joiner', { applied_name: 'a', deleted: true }),
        database(id + 2, 'b', 'joiner', { applied_name: 'b', deleted: true }),
      ],
    },
  };
}

/** Sessions that fail for good after so many statements, as if the process had been killed. */
function limited(open: OpenSession, statements: number): OpenSession {
  let left = statements;
  return async (name) => {
    const session = await open(name);
    const query = session.query.bind(session) as (...args: unknown[]) => unknown;
    session.query = ((...args: unknown[]) =>
      left-- > 0 ? query(...args) : Promise.reject(new Error('killed'))) as typeof session.query;
    return session;
  };
}
