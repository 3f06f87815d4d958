import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { promisify } from 'node:util';
import { makeStartedDirectory, type TestCoppice } from '../support/coppice.ts';
import { connect, query, refusal } from '../support/customer.ts';
import { type KilledCoppice, killedCoppice } from '../support/killed-coppice.ts';
import { createLiveProject, type LiveProject } from '../support/live-project.ts';
import { until } from '../support/until.ts';

const run = promisify(execFile);

/** Stands in every value that is to be masked, and nowhere else. */
const RAW = 'RAW-5fe1c0de';
const PEOPLE = 1000;

/** What a shop keeps, and what somebody left there who would like to see it afterwards. */
const SHOP = `
  CREATE TYPE mood AS ENUM ('sad', 'fine');
  CREATE DOMAIN mail AS text CHECK (VALUE LIKE '%@%');
  CREATE TABLE loot (what text);
  CREATE TABLE people (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    email mail NOT NULL UNIQUE,
    lower_email text GENERATED ALWAYS AS (lower(email)) STORED,
    name varchar(60) NOT NULL,
    letter text,
    card text,
    mood mood,
    visits int NOT NULL CHECK (visits >= 0),
    gone text
  );
  ALTER TABLE people ALTER COLUMN letter SET STORAGE EXTERNAL;
  CREATE TABLE orders (id int PRIMARY KEY, person bigint NOT NULL REFERENCES people (id), note text);
  CREATE TABLE hidden (owner text, note text);
  ALTER TABLE hidden ENABLE ROW LEVEL SECURITY;
  ALTER TABLE hidden FORCE ROW LEVEL SECURITY;
  CREATE POLICY nobody ON hidden FOR SELECT USING (false);
  CREATE POLICY anybody ON hidden FOR INSERT WITH CHECK (true);
  CREATE TABLE log (at date NOT NULL, email text) PARTITION BY RANGE (at);
  CREATE TABLE log_2025 PARTITION OF log FOR VALUES FROM ('2025-01-01') TO ('2026-01-01');
  CREATE TABLE log_2026 PARTITION OF log FOR VALUES FROM ('2026-01-01') TO ('2027-01-01');
  CREATE TABLE accounts (mail text PRIMARY KEY);
  CREATE TABLE logins (mail text REFERENCES accounts);
  INSERT INTO accounts SELECT '${RAW}' || n FROM generate_series(1, 20) AS n;
  INSERT INTO logins SELECT mail FROM accounts;
  CREATE TABLE base (email text);
  CREATE TABLE derived (more text) INHERITS (base);
  CREATE VIEW shown AS SELECT id, email FROM people;
  INSERT INTO people (email, name, letter, card, mood, visits, gone)
    SELECT 'Person' || n || '.${RAW}@example.org', '${RAW}' || n, repeat('${RAW} ', 300), '${RAW}', 'fine', n, '${RAW}'
      FROM generate_series(1, ${PEOPLE}) AS n;
  INSERT INTO orders SELECT n, n, E'tab\\tand\\nline\\\\' FROM generate_series(1, 100) AS n;
  INSERT INTO hidden VALUES ('${RAW}', 'kept');
  INSERT INTO log SELECT '2025-06-01'::date + n, '${RAW}' FROM generate_series(1, 400) AS n;
  INSERT INTO base VALUES ('${RAW}'); INSERT INTO derived VALUES ('${RAW}', 'kept');
  UPDATE people SET card = card || 'x';
  DELETE FROM people WHERE id > ${PEOPLE - 10};
  ALTER TABLE people DROP COLUMN gone;
  CREATE MATERIALIZED VIEW mails AS SELECT email FROM people;
  ANALYZE;
  CREATE FUNCTION steal_all() RETURNS void LANGUAGE sql AS $$
    INSERT INTO public.loot SELECT email || name FROM public.people WHERE NOT EXISTS (SELECT FROM public.loot) LIMIT 5 $$;
  CREATE FUNCTION steal(text) RETURNS text IMMUTABLE LANGUAGE plpgsql AS $$
    BEGIN PERFORM public.steal_all(); RETURN $1; EXCEPTION WHEN OTHERS THEN RETURN $1; END $$;
  CREATE INDEX ON people (steal(name));
  CREATE INDEX ON orders (id) WHERE public.steal('constant') = 'constant';
  ALTER TABLE people ADD CHECK (public.steal(name) = name) NOT VALID;
  CREATE FUNCTION note_all() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN INSERT INTO public.loot VALUES (OLD::text), (NEW::text); RETURN NEW; END $$;
  CREATE TRIGGER noted BEFORE INSERT OR UPDATE OR DELETE ON people FOR EACH ROW EXECUTE FUNCTION note_all();
  ALTER TABLE people ENABLE ALWAYS TRIGGER noted;
  CREATE RULE also AS ON INSERT TO people DO ALSO INSERT INTO loot SELECT email FROM people;
  TRUNCATE loot`;

const rule = (table_name: string, column_name: string, how: object) => ({
  ...{ database_name: 'neondb', schema_name: 'public', table_name, column_name },
  ...how,
});
const RULES = [
  rule('people', 'email', { masking_function: 'anon.pseudo_email(email)' }),
  rule('people', 'name', { masking_function: 'anon.fake_last_name()' }),
  rule('people', 'letter', { masking_value: 'a letter' }),
  rule('people', 'card', { masking_function: 'NULL' }),
  rule('people', 'visits', { masking_function: 'anon.random_int_between(1, 3)' }),
  rule('accounts', 'mail', { masking_function: 'anon.pseudo_email(mail)' }),
  rule('logins', 'mail', { masking_function: 'anon.pseudo_email(mail)' }),
  rule('hidden', 'owner', { masking_function: 'anon.hash(owner)' }),
  rule('log', 'email', { masking_function: 'anon.fake_email()' }),
  rule('base', 'email', { masking_function: "anon.partial(email, 0, '***', 0)" }),
];

interface MaskedBranch {
  readonly id: string;
  readonly path: string;
  readonly endpoint_path: string;
  readonly uri: string;
}

describe('an anonymized branch', { timeout: 900_000 }, () => {
  let data_directory: string;
  let killed: KilledCoppice;
  let project: LiveProject;
  before(async () => {
    data_directory = await makeStartedDirectory();
    killed = await killedCoppice(data_directory);
    project = await createLiveProject(await killed.running());
    await query(project.uri, SHOP);
  });
  after(() => killed?.remove());

  const create = async (body: object): Promise<MaskedBranch> => {
    const coppice = await killed.running();
    const made = await coppice.must('POST', `${project.path}/branch_anonymized`, {
      branch_create: { endpoints: [{ type: 'read_write' }] },
      ...body,
    });
    return {
      id: made.branch.id,
      path: `${project.path}/branches/${made.branch.id}`,
      endpoint_path: `${project.path}/endpoints/${made.endpoints[0].id}`,
      uri: made.connection_uris[0].connection_uri,
    };
  };
  const status = async (branch: MaskedBranch) =>
    (await killed.running()).must('GET', `${branch.path}/anonymized_status`);
  const untilState = (branch: MaskedBranch, state: string) =>
    until(async () => (await status(branch)).state === state, {
      what: `the branch to be ${state}`,
      timeout_ms: 120_000,
    });

  it('holds what the rules say, whatever the schema brings to run, and otherwise what its source holds', async () => {
    const coppice = await killed.running();
    const branch = await create({ masking_rules: RULES, start_anonymization: true });
    await coppice.settled(project.id);
    assert.equal((await status(branch)).state, 'anonymized');
    const [people] = await query(
      branch.uri,
      `SELECT count(*)::int AS count, count(DISTINCT email)::int AS mails, bool_and(email LIKE '%@example.%') AS masked,
              bool_and(lower_email = lower(email)) AS follows, bool_and(visits BETWEEN 1 AND 3) AS counted,
              bool_and(card IS NULL) AS emptied, min(letter) AS letter, max(id)::int AS last FROM people`,
    );
    const count = PEOPLE - 10;
    const yes = { masked: true, follows: true, counted: true, emptied: true };
    assert.deepEqual(people, { count, mails: count, ...yes, letter: 'a letter', last: count });
    const one = async (sql: string) => (await query(branch.uri, sql))[0].value;
    assert.deepEqual(
      await query(
        branch.uri,
        "SELECT count(*)::int AS got, count(*) FILTER (WHERE what ~ 'RAW')::int AS raw FROM loot",
      ),
      [{ got: 5, raw: 0 }],
    );
    assert.equal(await one("SELECT count(*)::int AS value FROM pg_stats WHERE most_common_vals::text ~ 'RAW'"), 0);
    assert.equal(await one('SELECT count(*)::int AS value FROM mails JOIN people USING (email)'), count);
    assert.equal(
      await one(
        "SELECT string_agg(DISTINCT tableoid::regclass::text, ',' ORDER BY tableoid::regclass::text) AS value FROM log WHERE email ~ '@example'",
      ),
      'log_2025,log_2026',
    );
    assert.equal(await one("SELECT string_agg(email, ',') AS value FROM base"), '***,***');
    assert.equal(await one('SELECT more AS value FROM derived'), 'kept');
    assert.equal(
      await one("SELECT count(*)::int AS value FROM logins JOIN accounts USING (mail) WHERE mail ~ '@example'"),
      20,
    );
    assert.equal(await one('SELECT note AS value FROM orders WHERE id = 7'), 'tab\tand\nline\\');
    assert.equal(await one("SELECT relforcerowsecurity AS value FROM pg_class WHERE relname = 'hidden'"), true);
    assert.match(await one('SELECT owner || note AS value FROM hidden'), /^[0-9a-f]{64}kept$/);
    // Sequences, triggers and rules go on where they were.
    await query(branch.uri, "INSERT INTO people (email, name, visits) VALUES ('a@b', 'a', 0)");
    assert.equal(await one("SELECT id::int AS value FROM people WHERE email = 'a@b'"), PEOPLE + 1);
    assert.ok((await one('SELECT count(*)::int AS value FROM loot')) > 5);
    // The same value is another one here than in another branch.
    const other = await create({ masking_rules: RULES, start_anonymization: true });
    await coppice.settled(project.id);
    const mail = 'SELECT email AS value FROM people WHERE id = 5';
    assert.notEqual(await one(mail), (await query(other.uri, mail))[0].value);
    await coppice.must('DELETE', other.path);
    await coppice.settled(project.id);
  });

  it('has nothing of what was masked in any file, nor a past', async () => {
    const coppice = await killed.running();
    const branch = await create({ masking_rules: RULES, start_anonymization: true });
    await coppice.settled(project.id);
    const identity = 'SELECT system_identifier::text AS id FROM pg_control_system()';
    assert.notDeepEqual(await query(branch.uri, identity), await query(project.uri, identity));
    await query(branch.uri, 'CREATE TABLE written_here AS SELECT * FROM people');
    await coppice.must('POST', `${branch.endpoint_path}/suspend`);
    await project.suspend();
    const { rows } = await coppice.ownDatabase(
      `SELECT timeline_id::text AS id FROM coppice.branches WHERE id = '${project.branch_id}'
       UNION SELECT s.id::text FROM coppice.timeline_snapshots s JOIN coppice.branches b USING (timeline_id)
        WHERE b.id = '${project.branch_id}'`,
    );
    const ofSource = rows.map(({ id }) => id as string);
    const found = await filesWith(RAW, data_directory);
    assert.notDeepEqual(found, [], 'the search finds nothing where there is something');
    assert.deepEqual(
      found.filter((file) => !ofSource.some((id) => file.includes(id))),
      [],
    );
  });

  it('lets nobody in before it is masked, however often they try', async () => {
    const coppice = await killed.running();
    const branch = await create({ masking_rules: RULES });
    await untilState(branch, 'initialized');
    assert.equal(await refusal(branch.uri), '57P03');
    await coppice.must('POST', `${branch.path}/anonymize`);
    const tries = Array.from({ length: 8 }, async () => {
      for (;;) {
        await using client = await connect(branch.uri).catch(() => undefined);
        if (!client) continue;
        assert.equal((await status(branch)).state, 'anonymized');
        const { rows } = await client.query("SELECT count(*)::int AS count FROM people WHERE email ~ 'RAW'");
        return rows[0].count;
      }
    });
    assert.deepEqual(await Promise.all(tries), [0, 0, 0, 0, 0, 0, 0, 0]);
  });

  it('stays private with a rule that does not fit, says which, and is masked when it is put right', async () => {
    const coppice = await killed.running();
    const wrong: [object, RegExp][] = [
      [rule('nobody', 'email', { masking_value: '' }), /neondb\.public\.nobody\.email: there is no such table/],
      [rule('people', 'lower_email', { masking_value: '' }), /lower_email: the column is reckoned from other columns/],
      [rule('people', 'visits', { masking_value: 'many' }), /visits: the value is not of the type integer/],
      [rule('shown', 'email', { masking_value: '' }), /shown\.email: there is no such table/],
      [rule('people', 'email', { masking_value: 'a@b' }), /unique/],
      [rule('people', 'visits', { masking_value: '-1' }), /check constraint/],
      [{ ...rule('people', 'email', { masking_value: '' }), database_name: 'no' }, /there is no such database/],
    ];
    const branch = await create({});
    await untilState(branch, 'initialized');
    for (const [one, expected] of wrong) {
      await coppice.must('PATCH', `${branch.path}/masking_rules`, { masking_rules: [one] });
      await coppice.must('POST', `${branch.path}/anonymize`);
      await untilState(branch, 'error');
      const { status_message } = await status(branch);
      assert.match(status_message, expected);
      assert.doesNotMatch(status_message, new RegExp(RAW));
      assert.equal(await refusal(branch.uri), '57P03');
    }
    await coppice.must('PATCH', `${branch.path}/masking_rules`, { masking_rules: RULES });
    await coppice.must('POST', `${branch.path}/anonymize`);
    await untilState(branch, 'anonymized');
    await until(async () => (await refusal(branch.uri)) === undefined, { what: 'the compute to run' });
    assert.deepEqual(await query(branch.uri, "SELECT FROM people WHERE email ~ 'RAW'"), []);
  });

  it('is not told of by a function that sees its source', async () => {
    const coppice = await killed.running();
    const parent = await coppice.must('POST', `${project.path}/branches`, { endpoints: [{ type: 'read_write' }] });
    await until(async () => (await refusal(parent.connection_uris[0].connection_uri)) === undefined, {
      what: 'the compute to run',
    });
    await query(
      parent.connection_uris[0].connection_uri,
      `CREATE FUNCTION tell(text) RETURNS text IMMUTABLE LANGUAGE plpgsql AS $$ BEGIN
         IF session_user <> 'neondb_owner' THEN RAISE '%', (SELECT max(name) FROM public.people); END IF; RETURN $1; END $$;
       CREATE INDEX ON orders (id) WHERE public.tell('') = ''`,
    );
    const branch = await create({
      branch_create: { branch: { parent_id: parent.branch.id }, endpoints: [{ type: 'read_write' }] },
      ...{ masking_rules: RULES, start_anonymization: true },
    });
    await untilState(branch, 'error');
    assert.match((await status(branch)).status_message, /table "public"\."orders": the rows could not be read$/);
    await coppice.must('DELETE', branch.path);
    await coppice.must('DELETE', `${project.path}/branches/${parent.branch.id}`);
  });

  it('is masked anew with what it holds by then', async () => {
    const coppice = await killed.running();
    const branch = await create({ masking_rules: RULES.slice(1), start_anonymization: true });
    await untilState(branch, 'anonymized');
    await until(async () => (await refusal(branch.uri)) === undefined, { what: 'the compute to run' });
    await query(branch.uri, "CREATE TABLE since (note text); INSERT INTO since VALUES ('written here')");
    await coppice.must('PATCH', `${branch.path}/masking_rules`, { masking_rules: RULES });
    await coppice.must('POST', `${branch.path}/anonymize`);
    await untilState(branch, 'anonymized');
    await until(async () => (await refusal(branch.uri)) === undefined, { what: 'the compute to run' });
    assert.deepEqual(await query(branch.uri, 'SELECT note FROM since'), [{ note: 'written here' }]);
    assert.deepEqual(await query(branch.uri, "SELECT FROM people WHERE email ~ 'RAW'"), []);
  });

  for (const point of ['create_branch:copied', 'begin', 'cloned', 'filled', 'ready', 'end']) {
    const stop = point.includes(':') ? point : `import_data:${point}`;
    it(`is private or masked when Coppice is killed at ${stop}, and masked in the end`, async () => {
      let before: string[] = [];
      const branches = async (coppice: TestCoppice): Promise<string[]> =>
        (await coppice.must('GET', `${project.path}/branches`)).branches.map(({ id }: { id: string }) => id);
      await killed.killAt(stop, async (coppice) => {
        before = await branches(coppice);
        await create({ masking_rules: RULES, start_anonymization: true });
      });
      const coppice = await killed.running();
      const [id] = (await branches(coppice)).filter((one) => !before.includes(one));
      const { endpoints } = await coppice.must('GET', `${project.path}/branches/${id}/endpoints`);
      const target = `endpoint_id=${endpoints[0].id}&database_name=${project.database}&role_name=${project.role}`;
      const { uri } = await coppice.must('GET', `${project.path}/connection_uri?branch_id=${id}&${target}`);
      // Held until it is there, or refused.
      const seen = await query(uri, "SELECT count(*)::int AS count FROM people WHERE email ~ 'RAW'").catch(() => []);
      assert.ok(seen.length === 0 || seen[0].count === 0);
      const state = async () => (await coppice.must('GET', `${project.path}/branches/${id}/anonymized_status`)).state;
      await until(async () => (await state()) === 'anonymized', {
        what: 'the branch to be masked',
        timeout_ms: 60_000,
      });
      await until(async () => (await refusal(uri)) === undefined, { what: 'the compute to run' });
      assert.deepEqual(await query(uri, "SELECT FROM people WHERE email ~ 'RAW'"), []);
      await coppice.must('DELETE', `${project.path}/branches/${id}`);
    });
  }

  it('is deleted while it is being masked', async () => {
    const coppice = await killed.running();
    const branch = await create({ masking_rules: RULES, start_anonymization: true });
    await until(
      async () => {
        const { operations } = await coppice.must('GET', `${project.path}/operations`);
        const filling = operations.find(({ action, branch_id }: Record<string, string>) => {
          return action === 'import_data' && branch_id === branch.id;
        });
        return filling.status !== 'scheduling';
      },
      { what: 'the rows to be masked' },
    );
    await coppice.must('DELETE', branch.path);
    assert.equal((await coppice.call('GET', `${branch.path}/anonymized_status`)).status, 404);
    assert.notEqual(await refusal(branch.uri), undefined);
  });

  it('leaves no copy of its source behind', async () => {
    const coppice = await killed.running();
    const strays = async () => {
      const { rows } = await coppice.ownDatabase(
        `SELECT id::text FROM coppice.timelines WHERE purged_at IS NULL
         UNION SELECT id::text FROM coppice.timeline_snapshots WHERE purged_at IS NULL`,
      );
      const known = rows.map(({ id }) => id as string);
      const names = await readdir(join(data_directory, 'storage/volumes'));
      return names.filter((name) => !name.startsWith('template-') && !known.includes(name));
    };
    await until(async () => (await strays()).length === 0, { what: 'copies to be gone', timeout_ms: 60_000 });
  });
});

/** Files below a directory that hold a text. */
async function filesWith(text: string, directory: string): Promise<string[]> {
  const { stdout } = await run('grep', ['-rlaF', '--devices=skip', text, directory], { maxBuffer: 1e7 }).catch(
    (error) => {
      // 1: none; 2: a file went meanwhile, and what was found is told all the same.
      if (typeof error.code === 'number') return error as { stdout: string };
      throw error;
    },
  );
  return stdout.split('\n').filter(Boolean);
}
