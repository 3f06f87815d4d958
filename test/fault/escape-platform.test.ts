import assert from 'node:assert/strict';
import { after, describe, test } from 'node:test';
import { createVerifier, formatVerifier } from '../../src/domain/scram-verifier.ts';
import { readActivity } from '../../src/postgres/activity.ts';
import { applyRolesAndDatabases } from '../../src/postgres/apply-config.ts';
import { readDatabases } from '../../src/postgres/databases.ts';
import { quietChild } from '../../src/postgres/first-start.ts';
import { readRoles } from '../../src/postgres/roles.ts';
import { type Customer, openCustomerComputes } from '../support/customer-computes.ts';
import { MAJORS } from '../support/postgres.ts';

/** What a customer leaves behind in a database for the platform's superuser to step into. */

const computes = await openCustomerComputes();
after(() => computes[Symbol.asyncDispose]());
const verifier = formatVerifier(await createVerifier('of-a-test'));

/**
 * Functions and operators with the names that the platform's statements use, in the schema that comes first by the
 * customer's wish. Each writes down who runs it; as a superuser it would make its customer one.
 */
const TRAPS = `
  CREATE TABLE public.caught (who text, what text);
  GRANT ALL ON public.caught TO PUBLIC;
  CREATE FUNCTION public.spring(what text) RETURNS void LANGUAGE plpgsql AS $$
  BEGIN
    INSERT INTO public.caught VALUES (current_user, what);
    IF (SELECT rolsuper FROM pg_roles WHERE rolname = current_user) THEN
      EXECUTE 'ALTER ROLE neondb_owner SUPERUSER';
    END IF;
  END $$;
  CREATE FUNCTION public.pg_terminate_backend(int, int) RETURNS bool LANGUAGE plpgsql AS $$ BEGIN PERFORM public.spring('terminate'); RETURN true; END $$;
  CREATE FUNCTION public.pg_get_userbyid(oid) RETURNS name LANGUAGE plpgsql AS $$ BEGIN PERFORM public.spring('userbyid'); RETURN 'x'; END $$;
  CREATE FUNCTION public.current_setting(text) RETURNS text LANGUAGE plpgsql AS $$ BEGIN PERFORM public.spring('setting'); RETURN '1'; END $$;
  CREATE FUNCTION public.same(name, name) RETURNS bool LANGUAGE plpgsql AS $$ BEGIN PERFORM public.spring('operator'); RETURN true; END $$;
  CREATE OPERATOR public.= (LEFTARG = name, RIGHTARG = name, FUNCTION = public.same);
  CREATE FUNCTION public.same_text(name, text) RETURNS bool LANGUAGE plpgsql AS $$ BEGIN PERFORM public.spring('operator'); RETURN true; END $$;
  CREATE OPERATOR public.= (LEFTARG = name, RIGHTARG = text, FUNCTION = public.same_text);
  CREATE VIEW public.pg_database AS SELECT public.spring('view')::text AS datname, 1 AS oid;
  CREATE VIEW public.pg_roles AS SELECT public.spring('view')::text AS datname, 1 AS oid;
  CREATE VIEW public.pg_subscription AS SELECT public.spring('view')::text AS datname, 1 AS oid;
  CREATE SCHEMA coppice;
  CREATE FUNCTION public.on_drop() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM public.spring('trigger'); RETURN NULL; END $$;
  CREATE TABLE public.watched (x int DEFAULT 1);
  CREATE TRIGGER t AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON public.watched EXECUTE FUNCTION public.on_drop();
`;

async function setTraps(customer: Customer, database: string): Promise<void> {
  await customer.query(TRAPS);
  for (const setting of ['search_path = public, pg_catalog', "role = 'neondb_owner'", 'row_security = on']) {
    await customer.query(`ALTER DATABASE ${database} SET ${setting}`);
  }
}

for (const major of MAJORS) {
  describe(`the platform on ${major}`, () => {
    const started = computes.start(major);

    test("runs nothing of a customer's, whatever it does in the customer's database", async () => {
      const { open, connect } = await started;
      await using customer = await connect();
      await customer.query('CREATE DATABASE trap');
      {
        await using inside = await connect({ database: 'trap' });
        await setTraps(inside, 'trap');
        await inside.query('CREATE ROLE leaver; GRANT CREATE ON DATABASE trap TO leaver; GRANT leaver TO neondb_owner');
        await inside.query('CREATE SCHEMA theirs AUTHORIZATION leaver');
        await inside.query('ALTER TABLE public.watched OWNER TO leaver').catch(() => undefined);
      }
      await setTraps(customer, 'neondb');

      const owner = {
        name: 'neondb_owner',
        origin: 'api',
        verifier,
        applied_verifier: verifier,
        can_login: true,
      } as const;
      const leaver = { name: 'leaver', origin: 'sql', verifier: null, can_login: false, deleted: true } as const;
      const trap = { id: 2, name: 'trap', owner_name: 'neondb_owner', applied_name: 'trap' };
      const roles = [{ ...owner, deleted: false }, leaver];
      await applyRolesAndDatabases(open, { roles, databases: [{ ...trap, name: 'sprung', deleted: false }] });
      await quietChild(open);
      {
        await using session = await open('neondb');
        await readRoles(session);
        await readDatabases(session);
        await readActivity(session);
      }
      await using inside = await connect({ database: 'sprung' });
      for (const client of [customer, inside]) {
        const { rows } = await client.query("SELECT * FROM public.caught WHERE who <> 'neondb_owner'");
        assert.deepEqual(rows, []);
      }
      await inside.end();
      await applyRolesAndDatabases(open, { roles, databases: [{ ...trap, applied_name: 'sprung', deleted: true }] });
      const { rows } = await customer.query("SELECT rolsuper FROM pg_catalog.pg_roles WHERE rolname = 'neondb_owner'");
      assert.deepEqual(rows, [{ rolsuper: false }]);
    });

    test('enters a database whatever its owner set on it, as itself', async () => {
      const { open, connect } = await started;
      await using customer = await connect({ database: 'postgres' });
      await customer.query('CREATE DATABASE odd');
      const { rows: settings } = await customer.query<Setting>(
        "SELECT name, vartype, enumvals, min_val, max_val FROM pg_catalog.pg_settings WHERE context = 'user' ORDER BY name",
      );
      assert.ok(settings.length > 100);
      const values = settings.map((setting) => ({ name: setting.name, hostile: hostileValues(setting) }));
      let set = 0;
      for (let round = 0; round < Math.max(...values.map(({ hostile }) => hostile.length)); round++) {
        for (const { name, hostile } of values) {
          const value = hostile[round]?.replaceAll("'", "''");
          if (value === undefined) continue;
          await customer.query(`ALTER DATABASE odd SET "${name}" = '${value}'`).then(
            () => set++,
            () => undefined,
          );
        }
        await using session = await open('odd');
        const { rows } = await session.query(
          `SELECT current_user::text AS "current", session_user::text AS "session", datname::text AS name, 'a\\b' AS text,
                  ARRAY(SELECT relname::text FROM pg_class WHERE oid = 'pg_catalog.pg_class'::regclass) AS found
             FROM pg_database WHERE datname = current_database()`,
        );
        const me = 'cloud_admin';
        assert.deepEqual(rows, [{ current: me, session: me, name: 'odd', text: 'a\\b', found: ['pg_class'] }]);
        await session.query('CREATE TABLE public.made (x int); DROP TABLE public.made');
      }
      assert.ok(set > 200, `${set} values were taken`);
    });

    test('believes nothing of its notes that a customer could have written there', async () => {
      const { open, connect } = await started;
      await using customer = await connect({ database: 'postgres' });
      await customer.query("DELETE FROM coppice.databases WHERE id = '77'");
      await customer.query(
        "INSERT INTO coppice.databases SELECT '77', oid FROM pg_database WHERE datname = 'postgres'",
      );
      const doomed = { id: 77, name: 'doomed', owner_name: 'neondb_owner', applied_name: 'doomed', deleted: true };
      await applyRolesAndDatabases(open, { roles: [], databases: [doomed] });
      await applyRolesAndDatabases(open, { roles: [], databases: [{ ...doomed, name: 'renamed', deleted: false }] });
      await using session = await open('postgres');
      const { rows } = await session.query("SELECT count(*)::int AS kept FROM pg_database WHERE datname = 'postgres'");
      assert.deepEqual(rows, [{ kept: 1 }]);
    });
  });
}

interface Setting {
  readonly name: string;
  readonly vartype: 'bool' | 'enum' | 'integer' | 'real' | 'string';
  readonly enumvals: string[] | null;
  readonly min_val: string | null;
  readonly max_val: string | null;
}

function hostileValues({ vartype, enumvals, min_val, max_val, name }: Setting): string[] {
  if (vartype === 'bool') return ['on', 'off'];
  if (vartype === 'enum') return enumvals ?? [];
  // The shortest time that is not "never" is worse than the bounds.
  if (vartype !== 'string') return [min_val, max_val, '1'].filter((value) => value !== null);
  return ['', 'nowhere', name === 'session_authorization' || name === 'role' ? 'neondb_owner' : "a,'b'"];
}
