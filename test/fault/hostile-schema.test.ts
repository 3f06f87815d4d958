import assert from 'node:assert/strict';
import { after, describe, test } from 'node:test';
import { pgHba, pgIdent } from '../../src/postgres/access.ts';
import { copySchemas, ownersIn, readContents } from '../../src/postgres/copy-schemas.ts';
import { dumpSchema } from '../../src/postgres/schema-dump.ts';
import { ensureSchemaReader } from '../../src/postgres/schema-reader.ts';
import { type CustomerCompute, openCustomerComputes } from '../support/customer-computes.ts';
import { MAJORS } from '../support/postgres.ts';

const LIMIT_BYTES = 10_000_000;
const patience = () => AbortSignal.timeout(120_000);

/** Tries to become the platform in every way that a session has, and writes down who it was then. */
const GRAB = `
  CREATE TABLE public.seen (what text, session_role text, role text, superuser text);
  CREATE FUNCTION public.grab(what text) RETURNS int LANGUAGE plpgsql AS $grab$
  DECLARE attempt text;
  BEGIN
    FOREACH attempt IN ARRAY ARRAY['RESET ROLE', 'RESET SESSION AUTHORIZATION', 'SET ROLE cloud_admin',
      'SET SESSION AUTHORIZATION cloud_admin', 'SET ROLE coppice_schema_reader', 'ALTER ROLE neondb_owner SUPERUSER',
      'GRANT pg_execute_server_program TO neondb_owner'] LOOP
      BEGIN EXECUTE attempt; EXCEPTION WHEN OTHERS THEN NULL; END;
    END LOOP;
    INSERT INTO public.seen VALUES (what, session_user, current_user, current_setting('is_superuser'));
    RETURN 1;
  EXCEPTION WHEN OTHERS THEN RETURN 1;
  END $grab$;
  CREATE FUNCTION public.fixed(what text) RETURNS int IMMUTABLE LANGUAGE plpgsql AS
    $fixed$ BEGIN RETURN public.grab(what); END $fixed$`;

/** Objects whose making may run something, or whose names may stand in a script. */
const HOOKS = [
  "CREATE DOMAIN public.trap AS int DEFAULT public.fixed('default of a domain') CHECK (public.fixed('domain') = VALUE)",
  `CREATE TABLE public.t (id int DEFAULT public.fixed('default'), d public.trap,
     e int GENERATED ALWAYS AS (public.fixed('generated') + 1) STORED, CHECK (public.fixed('check') > 0))`,
  "CREATE INDEX ON public.t ((public.fixed('index') + id))",
  "CREATE INDEX ON public.t (id) WHERE public.fixed('predicate') > 0",
  "CREATE VIEW public.v AS SELECT public.grab('view') AS a FROM public.t",
  "CREATE MATERIALIZED VIEW public.m AS SELECT public.grab('materialized view') AS a WITH NO DATA",
  "CREATE POLICY p ON public.t USING (public.grab('policy') > 0)",
  "CREATE RULE r AS ON INSERT TO public.t DO ALSO SELECT public.grab('rule')",
  `CREATE FUNCTION public.same(int, int) RETURNS boolean IMMUTABLE LANGUAGE plpgsql AS
     $$ BEGIN PERFORM public.grab('operator'); RETURN true; END $$`,
  'CREATE OPERATOR public.= (LEFTARG = int, RIGHTARG = int, FUNCTION = public.same)',
  `CREATE FUNCTION public."x"";
SET SESSION AUTHORIZATION 'cloud_admin';
SELECT public.grab('name'); --"() RETURNS int LANGUAGE sql AS $$ SELECT 1 $$`,
  `COMMENT ON TABLE public.t IS E'''; \\n\\\\connect x\\nSET SESSION AUTHORIZATION cloud_admin;\\nSELECT public.grab(''comment''); --'`,
  `CREATE FUNCTION public.begin() RETURNS text LANGUAGE sql BEGIN ATOMIC
     SELECT CASE WHEN true THEN E'\\';\\nRESET SESSION AUTHORIZATION;\\n' ELSE 'END;' END; END`,
  `CREATE ROLE "a'b"";c" LOGIN`,
  `GRANT "a'b"";c" TO CURRENT_USER`,
  `CREATE SCHEMA "s
p" AUTHORIZATION "a'b"";c"`,
  // Found before the server's own by whoever looks for functions where the database says.
  'CREATE SCHEMA evil',
  "CREATE FUNCTION evil.format_type(oid, int) RETURNS text LANGUAGE sql AS $$ SELECT public.grab('format_type')::text $$",
  "CREATE FUNCTION evil.pg_get_userbyid(oid) RETURNS name LANGUAGE sql AS $$ SELECT public.grab('userbyid')::name $$",
  `CREATE FUNCTION evil.set_config(text, text, boolean) RETURNS text LANGUAGE sql AS
     $$ SELECT public.grab('set_config')::text $$`,
  'CREATE VIEW evil.pg_class AS SELECT * FROM pg_catalog.pg_class WHERE public.grab(relname) > 0',
  'ALTER DATABASE neondb SET search_path = evil, pg_catalog, public',
  'ALTER ROLE neondb_owner SET search_path = evil, pg_catalog, public',
];

describe('a hostile schema', { timeout: 600_000 }, async () => {
  const computes = await openCustomerComputes();
  after(() => computes[Symbol.asyncDispose]());

  const dialOf =
    ({ spec: { id } }: CustomerCompute) =>
    () =>
      computes.driver.dial({ driver: computes.driver.name, id });
  const seen = async (compute: CustomerCompute) => {
    await using session = await compute.open('neondb');
    return (await session.query('SELECT * FROM public.seen')).rows;
  };
  const superusers = async (compute: CustomerCompute) => {
    await using session = await compute.open('postgres');
    const { rows } = await session.query('SELECT rolname FROM pg_roles WHERE rolsuper');
    return rows.map(({ rolname }) => rolname);
  };

  for (const major of MAJORS) {
    test(`gains nothing when it is read, nor when it is restored on ${major}`, async () => {
      const source = await computes.start(major);
      {
        await using customer = await source.connect();
        for (const statement of [GRAB, ...HOOKS]) await customer.query(statement);
        await customer.query('TRUNCATE public.seen');
        await assert.rejects(
          customer.query('CREATE EVENT TRIGGER e ON ddl_command_end EXECUTE FUNCTION public.grab()'),
          /permission denied|must be superuser|does not exist/,
        );
      }
      const contents = await readContents(dialOf(source));
      const request = { database: 'neondb', major, signal: patience(), limit_bytes: LIMIT_BYTES };
      const plain = await dumpSchema(dialOf(source), { ...request, form: 'plain' });
      assert.deepEqual(await seen(source), []);
      assert.deepEqual(await superusers(source), ['cloud_admin']);

      const target = await computes.start(major);
      const owners = ownersIn(contents);
      const files = {
        ...target.spec.files,
        'pg_hba.conf': pgHba(owners),
        'pg_ident.conf': pgIdent(undefined, owners),
      };
      await computes.driver.ensureConfigured({ driver: computes.driver.name, id: target.spec.id }, files);
      await copySchemas(dialOf(source), dialOf(target), {
        contents,
        major,
        limit_bytes: LIMIT_BYTES,
        signal: patience(),
      });

      const traces = await seen(target);
      // It did run, in the hands of its owner.
      assert.ok(traces.some(({ what }) => what === 'index'));
      for (const { what, session_role, role, superuser } of traces) {
        assert.deepEqual([what, session_role, role, superuser], [what, 'neondb_owner', 'neondb_owner', 'off']);
      }
      assert.deepEqual(await superusers(target), ['cloud_admin']);
      await using session = await target.open('neondb');
      const { rows } = await session.query(
        "SELECT pg_has_role('neondb_owner', 'pg_execute_server_program', 'member') AS has",
      );
      assert.deepEqual(rows, [{ has: false }]);
      // And nothing of it was lost.
      await session.query('TRUNCATE public.seen');
      await ensureSchemaReader(session);
      assert.equal(await dumpSchema(dialOf(target), { ...request, signal: patience(), form: 'plain' }), plain);
    });
  }
});
