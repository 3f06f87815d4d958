import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { chmod, readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { makeStartedDirectory, removeDataDirectory, startCoppice, type TestCoppice } from '../support/coppice.ts';
import { connect, query } from '../support/customer.ts';
import { type LiveArchive, liveArchive } from '../support/live-archive.ts';
import { createLiveProject, dataDirectoryOf, type LiveProject, postmasterPid } from '../support/live-project.ts';
import { until } from '../support/until.ts';

const run = promisify(execFile);
const COMMAND = fileURLToPath(new URL('../../bin/coppice.ts', import.meta.url));
const ENV = { COPPICE_ARCHIVE_CHECK_INTERVAL_SECONDS: '1' };

describe('the archive of a branch', { timeout: 300_000 }, () => {
  let data_directory: string;
  let coppice: TestCoppice;
  let project: LiveProject;
  let archive: LiveArchive;

  const start = async (flags: string[] = []) => {
    coppice = await startCoppice({ data_directory, flags, env: ENV });
  };
  /** Another Coppice listens on another port. */
  const here = (uri: string) => {
    const url = new URL(uri);
    url.port = String(coppice.pg_port);
    return url.href;
  };
  /** Some megabytes of log. */
  const write = (megabytes: number, { uri } = project) =>
    query(here(uri), `insert into filler select repeat('x', 1000) from generate_series(1, ${megabytes * 950})`);
  const segments = async () => (await archive.list()).length;
  const untilArchived = (count: number) =>
    until(async () => (await segments()) >= count, { what: `${count} segments in the archive` });
  const doctor = async () => {
    const env = { PATH: process.env.PATH, COPPICE_DATA_DIR: data_directory };
    // It ends with 1 when something is broken.
    const { stdout } = await run(process.execPath, [COMMAND, 'doctor'], { env }).catch((error) => error);
    return stdout as string;
  };
  const doctorSays = (pattern: RegExp) =>
    until(async () => pattern.test(await doctor()), { what: `doctor to say ${pattern}`, timeout_ms: 60_000 });

  before(async () => {
    data_directory = await makeStartedDirectory();
    await start();
    project = await createLiveProject(coppice);
    archive = await liveArchive(coppice, project);
    await query(project.uri, 'create table filler (text text)');
  });
  after(async () => {
    await coppice?.stop();
    await removeDataDirectory(data_directory);
  });

  it('gets what is written, soon, without a gap, and owns it', async () => {
    await write(12);
    await untilArchived(10);
    await archive.assertSound();
    const { name } = (await archive.list()).at(0)!;
    const { uid, mode } = await stat(archive.path(name));
    assert.deepEqual([uid, mode & 0o002], [process.getuid?.(), 0]);
  });

  it('can be written on by nobody else once its server sleeps', async () => {
    const wal = join(await dataDirectoryOf(project.uri), 'pg_wal');
    await coppice.must('POST', `${project.endpoint_path}/suspend`);
    await coppice.settled(project.id);
    const names = new Set(await readdir(wal));
    const shared = (await archive.list()).filter(({ name }) => names.has(name));
    assert.ok(shared.length > 0);
    for (const { name } of shared) assert.equal((await stat(archive.path(name))).mode & 0o222, 0, name);
  });

  it('goes on while branches are made of it, which have archives of their own', async () => {
    const loads = Promise.all([write(10), write(10)]);
    const created = await coppice.must('POST', `${project.path}/branches`, { endpoints: [{ type: 'read_write' }] });
    await coppice.settled(project.id);
    await loads;
    const roles = await coppice.must('GET', `${project.path}/branches/${created.branch.id}/roles`);
    const uri = new URL(here(project.uri));
    const host = created.endpoints[0].id;
    assert.ok(roles.roles.length > 0);
    uri.searchParams.set('options', `endpoint=${host}`);
    await query(uri.href, "insert into filler select repeat('y', 1000) from generate_series(1, 5000)");
    const child = await liveArchive(coppice, { branch_id: created.branch.id });
    assert.notEqual(child.timeline_id, archive.timeline_id);
    await until(async () => (await child.list()).length >= 3, { what: "the child's log" });
    await child.assertSound();
    await archive.assertSound();
    await coppice.must('DELETE', `${project.path}/branches/${created.branch.id}`);
    await coppice.settled(project.id);
    await until(() => !existsSync(child.directory), { what: "the child's archive to go" });
  });

  it('holds everything that was finished, and the last segment, once the compute sleeps', async () => {
    await write(3);
    await project.suspend();
    assert.deepEqual(await archive.incoming(), []);
    await archive.assertSound();
    const newest = (await archive.list()).at(-1)!;
    const volume = join(data_directory, 'storage/volumes', archive.timeline_id, 'pg_wal', newest.name);
    assert.deepEqual(await readFile(archive.path(newest.name)), await readFile(volume));
    // The next server goes on in that very segment.
    await write(3);
    await until(async () => (await archive.list()).at(-1)!.name > newest.name, { what: 'newer segments' });
    await archive.assertSound();
    assert.deepEqual(await readdir(join(archive.directory, 'refused')), []);
  });

  it('loses nothing when server and Coppice are killed under load', async () => {
    const load = async () => {
      await using client = await connect(here(project.uri));
      for (;;) await client.query("insert into filler select repeat('z', 1000) from generate_series(1, 500)");
    };
    const count = await segments();
    const loads = [load().catch(() => undefined), load().catch(() => undefined)];
    await untilArchived(count + 5);
    process.kill(await postmasterPid(await dataDirectoryOf(here(project.uri))), 'SIGKILL');
    await Promise.all(loads);
    await until(async () => (await project.state()) === 'active' || (await project.state()) === 'idle', { what: 'it' });
    await write(5);
    await untilArchived(count + 8);
    await archive.assertSound();

    const more = [load().catch(() => undefined), load().catch(() => undefined)];
    await untilArchived(count + 12);
    await coppice.kill();
    await Promise.all(more);
    await start(['--keep-computes']);
    await write(5);
    await untilArchived(count + 16);
    await archive.assertSound();
    assert.deepEqual(await readdir(join(archive.directory, 'refused')), []);
  });

  it('catches up with what was written while Coppice did not run', async () => {
    const count = await segments();
    await coppice.stop();
    // Its server goes on; nobody takes in what it archives.
    const run_directory = join(data_directory, 'run');
    const socket = (await readdir(run_directory)).find((name) => name.includes(project.endpoint_id));
    assert.ok(socket, (await readdir(run_directory)).join());
    const { default: pg } = await import('pg');
    const client = new pg.Client({
      host: join(run_directory, socket),
      user: 'cloud_admin',
      database: project.database,
    });
    await client.connect();
    await client.query("insert into public.filler select repeat('x', 1000) from generate_series(1, 20000)");
    await client.query('checkpoint');
    await client.end();
    await until(async () => (await archive.incoming()).length >= 15, { what: 'segments that wait' });
    assert.equal(await segments(), count);
    await start();
    await untilArchived(count + 15);
    await until(async () => (await archive.incoming()).length === 0, { what: 'all to be taken in' });
    await archive.assertSound();
  });

  it('that is missing a segment is found, named by doctor, and forgotten once it is back', async () => {
    const { name } = (await archive.list()).at(-3)!;
    await until(() => !existsSync(join(data_directory, 'storage/volumes', archive.timeline_id, 'pg_wal', name)), {
      what: 'the server to remove it',
    }).catch(() => undefined);
    const written = join(data_directory, 'storage/volumes', archive.timeline_id, 'pg_wal', name);
    await rm(written, { force: true });
    await rename(archive.path(name), join(data_directory, name));
    await doctorSays(new RegExp(`BAD +history: ${project.branch_id} of project ${project.id}: ${name} is neither`));
    assert.match(
      (
        await run(process.execPath, [COMMAND, 'status'], {
          env: { PATH: process.env.PATH, COPPICE_DATA_DIR: data_directory },
        })
      ).stdout,
      /history +1 damaged/,
    );
    assert.match(coppice.output(), /a history is damaged/);
    await rename(join(data_directory, name), archive.path(name));
    await doctorSays(/ok +history:/);
  });

  it('in which a bit has flipped is found, and right again once it is mended', async () => {
    const { name } = (await archive.list()).at(-4)!;
    const bytes = await readFile(archive.path(name));
    const flipped = Buffer.from(bytes);
    flipped[123_456]! ^= 4;
    await chmod(archive.path(name), 0o640);
    await writeFile(archive.path(name), flipped);
    await doctorSays(new RegExp(`BAD +history: .*${name} .*does not have the checksum`));
    await writeFile(archive.path(name), bytes);
    await doctorSays(/ok +history:/);
  });

  it('that lost or damaged what its server still has gets it back, and nobody needs to know', async () => {
    const count = await segments();
    await write(6);
    await untilArchived(count + 5);
    const wal = join(data_directory, 'storage/volumes', archive.timeline_id, 'pg_wal');
    const [deleted, flipped] = (await archive.list()).slice(-3).map(({ name }) => name) as [string, string];
    const originals = await Promise.all([deleted, flipped].map((name) => readFile(join(wal, name))));
    const bytes = Buffer.from(originals[1]!);
    bytes[200_000]! ^= 16;
    // In files of their own: what harms one that the server has by the same link harms that, too.
    for (const name of [deleted, flipped]) await rm(archive.path(name));
    await writeFile(archive.path(flipped), bytes, { mode: 0o440 });
    await until(
      async () => {
        const now = await Promise.all([deleted, flipped].map((name) => readFile(archive.path(name)).catch(() => '')));
        return now.every((found, index) => originals[index]!.equals(Buffer.from(found)));
      },
      { what: 'both to be back', timeout_ms: 60_000 },
    );
    await archive.assertSound();
    for (const name of [deleted, flipped]) {
      assert.ok(
        coppice.output().includes(`"subject":"${name}","msg":"a damaged segment was replaced by its original"`),
      );
    }
    assert.match(await doctor(), /ok +history:/);
  });

  it('goes when the project wants no history, without a restart, and comes back with it', async () => {
    const pid = await postmasterPid(await dataDirectoryOf(here(project.uri)));
    await coppice.must('PATCH', project.path, { project: { history_retention_seconds: 0 } });
    await coppice.settled(project.id);
    assert.ok(!existsSync(archive.directory));
    await write(6);
    const [{ failed_count, archived_count }] = await query(here(project.uri), 'select * from pg_stat_archiver').catch(
      () => [{}],
    );
    assert.ok(archived_count === undefined || Number(archived_count) > 0, String(failed_count));
    assert.ok(!existsSync(archive.directory));
    await coppice.must('PATCH', project.path, { project: { history_retention_seconds: 3600 } });
    await coppice.settled(project.id);
    await write(6);
    await untilArchived(4);
    await archive.assertSound();
    assert.equal(await postmasterPid(await dataDirectoryOf(here(project.uri))), pid);
    await doctorSays(/ok +history:/);
  });

  it('is deleted with its project, and one that belongs to nothing is removed', async () => {
    const stray = join(archive.directory, '../0199b0a2-7a00-7000-8000-00000000ffff');
    await coppice.must('DELETE', project.path);
    await until(() => !existsSync(archive.directory), { what: 'the archive to go' });
    await run('mkdir', ['-p', join(stray, 'log')]);
    await until(() => !existsSync(stray), { what: 'the stray to go' });
    assert.deepEqual(await readdir(join(archive.directory, '..')), []);
  });
});
