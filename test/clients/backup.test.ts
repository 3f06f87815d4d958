import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { makeDataDirectory, removeDataDirectory, startCoppice, type TestCoppice } from '../support/coppice.ts';
import { mustFail, mustRun } from '../support/coppice-command.ts';
import { connect, query } from '../support/customer.ts';
import { createLiveProject, type LiveProject } from '../support/live-project.ts';
import { linkToken, postLogin } from '../support/login-over-socket.ts';
import { hasS3, type S3Server, startS3Server } from '../support/s3-server.ts';
import { until } from '../support/until.ts';

/** Somebody who logs in by password. */
const ANN = { email: 'ann@example.test', password: 'a password of a test' };

const sentBytes = (out: string): number => Number(/([\d.]+) MiB were sent/.exec(out)![1]) * 1024 ** 2;

/** How many projects are in object storage alone. */
const detached = async ({ data_directory }: TestCoppice): Promise<number> =>
  JSON.parse(await mustRun(data_directory, ['status', '--json'])).projects_detached;

/** Commits rows one after the other until it is stopped; knows which were acknowledged. */
async function startWriter(uri: string) {
  const client = await connect(uri);
  let stopped = false;
  let acknowledged = 0;
  const writing = (async () => {
    while (!stopped) {
      await client.query('insert into load values ($1)', [acknowledged + 1]);
      acknowledged += 1;
    }
  })();
  return {
    acknowledged: () => acknowledged,
    stop: async () => {
      stopped = true;
      await writing;
      await client.end();
    },
  };
}

/** Backups, and what the installations keep in object storage, lie in S3 where there is a server for tests, else in directories. */
describe('a backup of everything, made while Coppice runs', { timeout: 600_000 }, () => {
  let server: S3Server | undefined;
  let places: string;
  let place: string;
  let env: Readonly<Record<string, string>>;
  let restored_env: Readonly<Record<string, string>>;
  let origin: TestCoppice;
  let restored: TestCoppice;
  let busy: LiveProject;
  let asleep: LiveProject;
  let dev_uri: string;
  let archived_path: string;
  let snapshot_id: string;
  let key: string;
  let past: string;
  let committed_before: number;
  let first_sent_bytes: number;
  const directories: string[] = [];

  before(async () => {
    server = hasS3 ? await startS3Server() : undefined;
    places = server ? `s3://${server.bucket}` : await mkdtemp(join(tmpdir(), 'backups-'));
    place = `${places}/backups`;
    env = { ...server?.env, COPPICE_OBJECTS: `${places}/own` };
    restored_env = { ...env, COPPICE_OBJECTS: `${places}/restored` };
    origin = await startCoppice({ env: { ...env, COPPICE_DETACH_PROJECTS_AFTER_SECONDS: '2' } });
    directories.push(origin.data_directory);
    busy = await createLiveProject(origin);
    asleep = await createLiveProject(origin);
    await query(busy.uri, 'create table load (id int primary key)');
    await query(busy.uri, "create table notes as select generate_series(1, 1000) as id, 'then' as text");
    [{ past }] = await query(
      busy.uri,
      `select to_char(clock_timestamp() at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as past`,
    );
    await query(busy.uri, "update notes set text = 'now'");
    const { branch } = await origin.must('POST', `${busy.path}/branches`, {
      branch: { name: 'dev' },
      endpoints: [{ type: 'read_write' }],
    });
    await origin.settled(busy.id);
    const names = `role_name=${busy.role}&database_name=${busy.database}`;
    dev_uri = (await origin.must('GET', `${busy.path}/connection_uri?branch_id=${branch.id}&${names}`)).uri;
    await query(dev_uri, "insert into notes values (1001, 'of dev')");
    const { snapshot } = await origin.must('POST', `${busy.branch_path}/snapshot?name=kept`);
    snapshot_id = snapshot.id;
    await query(asleep.uri, 'create table quiet as select 42 as answer');
    await origin.settled(busy.id);
    await asleep.suspend();
    const old = await origin.must('POST', `${asleep.path}/branches`, { branch: { name: 'old', archived: true } });
    archived_path = `${asleep.path}/branches/${old.branch.id}`;
    await origin.settled(asleep.id);
    assert.equal((await origin.must('GET', archived_path)).branch.current_state, 'archived');
    await until(async () => (await detached(origin)) === 1, {
      what: 'the other project to be detached',
      timeout_ms: 120_000,
    });
    await origin.settled(asleep.id);
    key = (await mustRun(origin.data_directory, ['keys', 'create', '--name', 'of before'])).trim();
    const link = await mustRun(origin.data_directory, ['users', 'create', '--email', ANN.email, '--link']);
    assert.equal((await postLogin(origin, '/use-link', { token: linkToken(link), ...ANN })).status, 200);
  });
  after(async () => {
    await origin?.stop();
    await restored?.stop();
    for (const directory of directories) await removeDataDirectory(directory);
    await server?.stop();
    if (!server) await rm(places, { recursive: true, force: true });
  });

  it('holds what was committed before it began, and keeps nobody from writing', async () => {
    const writer = await startWriter(busy.uri);
    await until(() => writer.acknowledged() > 20, { what: 'rows to be written' });
    committed_before = writer.acknowledged();
    const out = await mustRun(origin.data_directory, ['backup', place], env);
    assert.match(out, /^Backup \d{8}T\d{6}Z-[0-9a-f]{8} holds 2 projects with 4 branches as of /);
    assert.match(out, /The master key is not in it: keep .*master\.key elsewhere/);
    assert.doesNotMatch(out, /NOT WHOLE/);
    assert.ok(writer.acknowledged() > committed_before, 'the writer went on');
    await writer.stop();
    first_sent_bytes = sentBytes(out);
    assert.equal(await asleep.state(), 'idle', 'nobody was woken for it');
    assert.equal((await origin.must('GET', archived_path)).branch.current_state, 'archived', 'nor brought back');
    assert.equal(await detached(origin), 1);
  });

  it('costs the second time what has changed', async () => {
    await query(dev_uri, "insert into notes values (1002, 'later')");
    const again = sentBytes(await mustRun(origin.data_directory, ['backup', place], env));
    assert.ok(again < first_sent_bytes / 4, `${again} of ${first_sent_bytes} bytes`);
    const listed = await mustRun(origin.data_directory, ['backup', place, '--list'], env);
    assert.equal(listed.trim().split('\n').length, 2);
  });

  it('is restored into an empty data directory, where everything goes on as it was', async () => {
    const key_file = join(origin.data_directory, 'master.key');
    await origin.stop();
    const data_directory = await makeDataDirectory();
    directories.push(data_directory);
    const args = ['restore', place, '--master-key-file', key_file];
    assert.match(await mustFail(data_directory, args, env), /holds branches of an installation: set COPPICE_OBJECTS/);
    const out = await mustRun(data_directory, args, restored_env);
    assert.match(out, /holds 2 projects with 4 branches as of /);
    restored = await startCoppice({
      data_directory,
      // The connection strings of before name the port.
      env: { ...restored_env, COPPICE_PG_PORT: String(origin.pg_port), COPPICE_API_PORT: String(origin.api_port) },
    });
    const [{ rows, last }] = await query(busy.uri, 'select count(*)::int as rows, max(id) as last from load');
    assert.equal(rows, last, 'none is missing in between');
    assert.ok(rows >= committed_before, `${rows} of ${committed_before}`);
    assert.equal(await detached(restored), 1);
    assert.deepEqual(await query(asleep.uri, 'select answer from quiet'), [{ answer: 42 }]);
    assert.equal(await detached(restored), 0);
    assert.deepEqual(await query(dev_uri, 'select text from notes where id > 1000 order by id'), [
      { text: 'of dev' },
      { text: 'later' },
    ]);
    const me = await fetch(`http://127.0.0.1:${restored.api_port}/api/v2/users/me`, {
      headers: { authorization: `Bearer ${key}` },
    });
    assert.equal(me.status, 200, 'the API key of before is one');
    assert.equal((await postLogin(restored, '/sign-in/email', ANN)).status, 200, 'and so is a password');
  });

  it('has the history of before', async () => {
    const { body } = await restored.call('POST', `${busy.path}/branches`, {
      branch: { name: 'then', parent_id: busy.branch_id, parent_timestamp: past },
      endpoints: [{ type: 'read_write' }],
    });
    await restored.settled(busy.id);
    const names = `role_name=${busy.role}&database_name=${busy.database}`;
    const { uri } = await restored.must('GET', `${busy.path}/connection_uri?branch_id=${body.branch.id}&${names}`);
    assert.deepEqual(await query(uri, 'select distinct text from notes'), [{ text: 'then' }]);
  });

  it('has the snapshots of before', async () => {
    const { branch } = await restored.must('POST', `${busy.path}/snapshots/${snapshot_id}/restore`, {
      name: 'kept again',
    });
    await restored.settled(busy.id);
    const names = `role_name=${busy.role}&database_name=${busy.database}`;
    const { uri } = await restored.must('GET', `${busy.path}/connection_uri?branch_id=${branch.id}&${names}`);
    assert.deepEqual(await query(uri, 'select distinct text from notes'), [{ text: 'now' }]);
  });

  it('has the archived branches of before, and needs nothing of the other installation for them', async () => {
    if (server) await rm(server.path('own'), { recursive: true });
    else await rm(join(places, 'own'), { recursive: true });
    const { branch } = await restored.must('GET', archived_path);
    assert.equal(branch.current_state, 'archived');
    const { endpoint } = await restored.must('POST', `${asleep.path}/endpoints`, {
      endpoint: { branch_id: branch.id, type: 'read_write' },
    });
    const uri = asleep.uri.replaceAll(asleep.endpoint_id, endpoint.id);
    assert.deepEqual(await query(uri, 'select answer from quiet'), [{ answer: 42 }]);
    assert.equal((await restored.must('GET', archived_path)).branch.current_state, 'ready');
  });

  it('is of an installation that can be backed up again, and goes on with its history', async () => {
    await query(busy.uri, 'insert into load select coalesce(max(id), 0) + 1 from load');
    const out = await mustRun(restored.data_directory, ['backup', place, '--keep', '1'], restored_env);
    assert.match(out, /Removed 2 older backups/);
    assert.equal(
      (await mustRun(restored.data_directory, ['backup', place, '--list'], restored_env)).trim().split('\n').length,
      1,
    );
    assert.doesNotMatch(await mustRun(restored.data_directory, ['doctor'], restored_env), /BAD/);
  });
});
