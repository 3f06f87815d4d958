import assert from 'node:assert/strict';
import { mkdir, mkdtemp, readdir, readFile, rm, statfs, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import {
  makeDataDirectory,
  removeDataDirectory,
  spawnCoppice,
  startCoppice,
  type TestCoppice,
} from '../support/coppice.ts';
import { beginCommand, mustFail, mustRun, runCommand } from '../support/coppice-command.ts';
import { query } from '../support/customer.ts';
import { cannotMount, system } from '../support/filesystem.ts';
import { createLiveProject, type LiveProject } from '../support/live-project.ts';
import { until } from '../support/until.ts';

/** With the reserve less than any branch needs. */
const LEFT_BYTES = 28 * 1024 ** 2;

const killedAt = (point: string) => ({ COPPICE_TEST_STOP_POINT: point });

describe('a backup where something is killed, damaged or in the way', { timeout: 900_000 }, () => {
  let place: string;
  let origin: TestCoppice;
  let project: LiveProject;
  let key_file: string;
  const directories: string[] = [];

  const newDirectory = async () => {
    const directory = await makeDataDirectory();
    directories.push(directory);
    return directory;
  };
  const listed = async (data_directory = origin.data_directory) =>
    (await mustRun(data_directory, ['backup', place, '--list'])).split('\n').filter((line) => /^\d/.test(line));
  const objectsBelow = async (prefix: string) =>
    (await readdir(join(place, prefix), { recursive: true, withFileTypes: true }))
      .filter((entry) => entry.isFile())
      .map((entry) => join(entry.parentPath, entry.name));
  /** Connection strings name the port. */
  const samePorts = () => ({ COPPICE_PG_PORT: String(origin.pg_port), COPPICE_API_PORT: String(origin.api_port) });
  const restoreArgs = () => ['restore', place, '--master-key-file', key_file];

  before(async () => {
    place = await mkdtemp(join(tmpdir(), 'backups-'));
    origin = await startCoppice();
    directories.push(origin.data_directory);
    key_file = join(origin.data_directory, 'master.key');
    project = await createLiveProject(origin);
    await query(project.uri, 'create table kept as select generate_series(1, 500) as id');
    await query(project.uri, 'create table notes (text text)');
  });
  after(async () => {
    await origin?.stop();
    for (const directory of directories) await removeDataDirectory(directory);
    await rm(place, { recursive: true, force: true });
  });

  it('that is killed anywhere is none, and the next one is', async () => {
    const earlier = await listed();
    for (const point of ['backup:dumped', 'backup:timeline', 'backup:sent']) {
      const { code } = await runCommand(origin.data_directory, ['backup', place], killedAt(point));
      assert.equal(code, null, `killed at ${point}`);
      assert.deepEqual(await listed(), earlier);
    }
    await mustRun(origin.data_directory, ['backup', place]);
    assert.equal((await listed()).length, earlier.length + 1);
  });

  it('outlives a Coppice that is killed while it takes the snapshots', async () => {
    const { data_directory } = origin;
    const earlier = await listed();
    await origin.stop();
    origin = await startCoppice({ data_directory, env: { ...samePorts(), ...killedAt('backup:snapshot') } });
    const { ended } = beginCommand(data_directory, ['backup', place]);
    await until(() => origin.process.signalCode === 'SIGKILL', { what: 'Coppice to be killed' });
    origin = await startCoppice({ data_directory, env: samePorts() });
    const { code, out, err } = await ended;
    assert.equal(code, 0, `${out}${err}`);
    assert.equal((await listed()).length, earlier.length + 1);
  });

  it('is made once at a time', async () => {
    await query(project.uri, "insert into notes values ('of two')");
    const ends = await Promise.all([1, 2].map(() => runCommand(origin.data_directory, ['backup', place])));
    const refused = ends.filter(({ code }) => code === 1);
    // Where one was quicker than the other began, both were made.
    for (const { err } of refused) assert.match(err, /another backup of this installation is being made/);
    assert.ok(refused.length < 2);
  });

  it('is not mixed with those of another installation that writes at the same time', async () => {
    const lease = join(place, 'leases', 'somebody-else');
    await mkdir(dirname(lease), { recursive: true });
    await writeFile(lease, '');
    assert.match(await mustFail(origin.data_directory, ['backup', place]), /another Coppice writes to/);
    await rm(lease);
  });

  it('keeps as many as it is told, and nothing that only the others needed', async () => {
    await mustRun(origin.data_directory, ['backup', place]);
    // As a backup that was killed leaves it.
    const name = 'f'.repeat(64);
    const stray = join(place, 'chunks/ff', name);
    await mkdir(dirname(stray), { recursive: true });
    await writeFile(stray, '');
    await mustRun(origin.data_directory, ['backup', place, '--keep', '1']);
    const [only, ...others] = await listed();
    assert.deepEqual(others, []);
    assert.deepEqual(await readdir(join(place, 'dumps')), [only!.split(' ')[0]]);
    assert.ok(!(await objectsBelow('chunks')).includes(stray));
  });

  it('is restored by nobody without its key, into nothing that is in use', async () => {
    await mustRun(origin.data_directory, ['backup', place]);
    const directory = await newDirectory();
    const wrong = join(dirname(directory), 'wrong.key');
    await writeFile(wrong, `${'ab'.repeat(32)}\n`);
    assert.match(await mustFail(directory, ['restore', place, '--master-key-file', wrong]), /is not the master key/);
    assert.match(await mustFail(directory, ['restore', place]), /the master key .* cannot be read/);
    assert.match(
      await mustFail(directory, [...restoreArgs(), '--backup', '20260101T000000Z-00000000']),
      /there is no backup/,
    );
    assert.deepEqual(await readdir(dirname(directory)), ['wrong.key'], 'nothing was made');
    assert.match(await mustFail(origin.data_directory, restoreArgs()), /in use by another Coppice/);
    await mkdir(directory);
    await writeFile(join(directory, 'mine'), '');
    assert.match(await mustFail(directory, restoreArgs()), /is not empty \(it holds mine\)/);
    const empty = await mkdtemp(join(tmpdir(), 'nothing-'));
    assert.match(
      await mustFail(directory, ['restore', empty, '--master-key-file', key_file]),
      /there are no backups in/,
    );
    await rm(empty, { recursive: true });
  });

  it('names what is damaged or missing, and is restored once that is mended, whatever is killed meanwhile', async () => {
    // Of a server that runs and has written.
    await query(project.uri, "insert into notes values ('of the end')");
    // Alone, so that every chunk is one of it.
    await mustRun(origin.data_directory, ['backup', place, '--keep', '1']);
    const directory = await newDirectory();
    const [chunk] = await objectsBelow('chunks');
    const bytes = await readFile(chunk!);
    const flipped = Buffer.from(bytes);
    flipped[flipped.length - 5]! ^= 4;
    const name = chunk!.slice(chunk!.lastIndexOf('/') + 1);
    await writeFile(chunk!, flipped);
    assert.match(await mustFail(directory, restoreArgs()), new RegExp(`${name}.* is not what was stored there`));
    await rm(chunk!);
    assert.match(await mustFail(directory, restoreArgs()), new RegExp(`there is no object chunks/.*${name}`));
    const refused = spawnCoppice({ data_directory: directory });
    await until(() => refused.child.exitCode !== null, { what: 'a start to be refused' });
    assert.match(refused.output(), /holds half of backup .*: run coppice restore .* again, or empty the directory/);
    await writeFile(chunk!, bytes);

    for (const point of ['restore:volume', 'restore:replayed', 'restore:timeline', 'restore:loaded']) {
      const { code, err } = await runCommand(directory, restoreArgs(), killedAt(point));
      assert.equal(code, null, `killed at ${point}: ${err}`);
    }
    await mustRun(directory, restoreArgs());
    assert.match(await mustFail(directory, restoreArgs()), /is not empty/);
    const restored = await startCoppice({ data_directory: directory });
    try {
      const uri = project.uri.replaceAll(String(origin.pg_port), String(restored.pg_port));
      assert.deepEqual(await query(uri, 'select count(*)::int as rows from kept'), [{ rows: 500 }]);
      assert.deepEqual((await query(uri, "select from notes where text = 'of the end'")).length, 1);
    } finally {
      await restored.stop();
    }
  });

  it('is not begun to be restored where there is no room for it', { skip: cannotMount }, async () => {
    await mustRun(origin.data_directory, ['backup', place]);
    const directory = await newDirectory();
    await mustRun(directory, ['pool', 'create', '--size', '400M']);
    try {
      const { bavail, bsize } = await statfs(join(directory, 'pool/mount'));
      const taken_bytes = bavail * bsize - LEFT_BYTES;
      await system('fallocate', '-l', String(taken_bytes), join(directory, 'pool/mount/taken'));
      assert.match(
        await mustFail(directory, restoreArgs()),
        /needs [\d.]+ GiB, and [\d.]+ GiB are free beside the reserve/,
      );
      assert.deepEqual(await readdir(join(directory, 'pool/mount/volumes')), []);
      await rm(join(directory, 'pool/mount/taken'));
      await mustRun(directory, restoreArgs());
    } finally {
      await runCommand(directory, ['pool', 'unmount']);
    }
  });
});
