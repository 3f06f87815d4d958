import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { until } from '../../support/until.ts';
import { printed, runProgram } from './installed-program.ts';
import { BOTH_HOSTS, type MatrixClient, type Place, tableName } from './matrix-client.ts';

const versionOf = (program: string): string | undefined =>
  /\(PostgreSQL\) ([\d.]+)/.exec(printed(program, '--version') ?? '')?.[1];

const psql = async ({ uri }: Place, ...commands: string[]): Promise<string> =>
  (
    await runProgram('psql', uri, '-XAtq', '-v', 'ON_ERROR_STOP=1', ...commands.flatMap((command) => ['-c', command]))
  ).stdout.trim();

async function useSessions(place: Place): Promise<void> {
  const table = tableName('psql', place);
  await psql(place, `create table ${table} (id int primary key, text text)`);
  await psql(place, 'begin', `insert into ${table} values (1, 'one')`, 'commit');
  await assert.rejects(psql(place, '\\set VERBOSITY sqlstate', `insert into ${table} values (1, 'again')`), {
    stderr: /ERROR: {2}23505/,
  });
  assert.match(await psql(place, `\\d ${table}`), /id\|integer\|\|not null/);
  assert.equal(
    await psql(place, '\\set FETCH_COUNT 100', 'select n from generate_series(1, 1000) n').then(
      (rows) => rows.split('\n').length,
    ),
    1000,
  );
  await assert.rejects(runProgram('psql', place.uri, '-X1', '-c', `delete from ${table}`, '-c', 'select 1/0'));
  assert.equal(await psql(place, `select count(*) from ${table}`), '1');
}

async function copyFiles(place: Place): Promise<void> {
  const table = tableName('psql_copied', place);
  const [before, after] = ['in', 'out'].map((name) => join(place.directory, `${table}.${name}`)) as [string, string];
  await writeFile(before, Array.from({ length: 2_000 }, (_, id) => `${id},"text, ${id}"\n`).join(''));
  await psql(
    place,
    `create table ${table} (id int, text text)`,
    `\\copy ${table} from '${before}' csv`,
    `\\copy (select * from ${table} order by id) to '${after}' csv`,
  );
  assert.equal(await readFile(after, 'utf8'), await readFile(before, 'utf8'));
}

/** What Ctrl-C does. */
async function interrupt(place: Place): Promise<void> {
  const child: ChildProcess = spawn('psql', [place.uri, '-X', '-c', "select pg_sleep(600), 'psql sleeps'"]);
  try {
    const ended = once(child, 'exit');
    const said = text(child.stderr!);
    const asleep =
      "select count(*) from pg_stat_activity where state = 'active' and query like '%''psql sl%' and pid <> pg_backend_pid()";
    await until(async () => (await psql(place, asleep)) === '1', { what: 'the query that is to be cancelled' });
    child.kill('SIGINT');
    await ended;
    assert.match(await said, /canceling statement due to user request/);
  } finally {
    child.kill('SIGKILL');
  }
}

async function encrypt(place: Place): Promise<void> {
  const conninfo = `${place.uri}&sslmode=verify-full&sslrootcert=${place.ca_file}&channel_binding=require`;
  const { stdout } = await runProgram('psql', conninfo, '-XAtc', '\\conninfo');
  assert.match(stdout, /SSL connection/);
}

const PGBENCH = ['-n', '-c', '8', '-j', '2', '-t', '5'];

async function benchmark(place: Place): Promise<void> {
  const { stderr } = await runProgram('pgbench', '-iq', '-s', '1', place.uri);
  assert.match(stderr, /done in/);
  for (const protocol of ['simple', 'extended', 'prepared']) {
    const { stdout } = await runProgram('pgbench', ...PGBENCH, '-M', protocol, place.uri);
    assert.match(stdout, /number of transactions actually processed: 40\/40/, protocol);
  }
  assert.equal(await psql(place, 'select count(*) from pgbench_history'), '120');
}

function missing(program: string): string | undefined {
  return versionOf(program) === undefined ? `no ${program} on the path` : undefined;
}

/** Postgres's own programs. */
export const PSQL_CLIENTS: readonly MatrixClient[] = [
  {
    name: 'psql',
    version: versionOf('psql') ?? '',
    missing: missing('psql'),
    hosts: BOTH_HOSTS,
    notes: 'and so libpq, with channel binding',
    cases: {
      'runs statements, describes tables, fails': useSessions,
      'copies files both ways': copyFiles,
      'is interrupted': interrupt,
      'encrypts, and checks the certificate': encrypt,
    },
  },
  {
    name: 'pgbench',
    version: versionOf('pgbench') ?? '',
    missing: missing('pgbench'),
    hosts: BOTH_HOSTS,
    notes: 'with `-M simple`, `extended` and `prepared`',
    cases: { 'runs in all three protocols': benchmark },
  },
];
