import assert from 'node:assert/strict';
import { chmod, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { makeStartedDirectory, type TestCoppice } from '../support/coppice.ts';
import { query } from '../support/customer.ts';
import { type KilledCoppice, killedCoppice } from '../support/killed-coppice.ts';
import { createLiveProject, type LiveProject } from '../support/live-project.ts';
import { until } from '../support/until.ts';

/** Where the process is killed: while a branch goes to the archive, and while it comes back. */
const GOING = ['volume', 'stored', 'archived', 'discarded'].map((place) => `timeline_archive:${place}`);
const COMING = ['volume', 'snapshots', 'log'].map((place) => `timeline_unarchive:${place}`);

/** A machine that tests something else, too, is slow. */
const timeout_ms = 120_000;

describe('the archive of branches', { timeout: 1_800_000 }, () => {
  let data_directory: string;
  let objects: string;
  let base: LiveProject;
  let killed: KilledCoppice;

  before(async () => {
    data_directory = await makeStartedDirectory();
    objects = join(data_directory, '..', 'objects');
    // The log of every branch goes there as well, later than any of this takes.
    killed = await killedCoppice(data_directory, {
      COPPICE_OBJECTS: objects,
      COPPICE_ARCHIVE_SHIP_SECONDS: '86400',
    });
    base = await createLiveProject(await killed.running());
    await query(base.uri, "create table held as select 'kept' as name");
    await base.suspend();
  });
  after(() => killed?.remove());

  const createArchived = (coppice: TestCoppice) =>
    coppice.call('POST', `${base.path}/branches`, { branch: { name: 'old', archived: true } });
  const findOld = async (coppice: TestCoppice) => {
    const { branches } = await coppice.must('GET', `${base.path}/branches?search=old`);
    return branches[0] as { id: string; current_state: string };
  };
  const use = async (coppice: TestCoppice) => {
    const { id } = await findOld(coppice);
    return coppice.call('POST', `${base.path}/endpoints`, { endpoint: { branch_id: id, type: 'read_write' } });
  };
  /** What the branch holds, through the endpoint that it has. */
  const rowsOf = async (coppice: TestCoppice) => {
    const { id } = await findOld(coppice);
    const { endpoints } = await coppice.must('GET', `${base.path}/branches/${id}/endpoints`);
    const uri = new URL(base.uri.replaceAll(base.endpoint_id, endpoints[0].id));
    uri.port = String(coppice.pg_port);
    return (await query(uri.href, 'select name from held')).map(({ name }) => name);
  };
  const timelinesStored = () => readdir(join(objects, 'timelines')).catch(() => [] as string[]);
  const volumes = async () => (await readdir(join(data_directory, 'storage/volumes'))).length;
  /** Everything of the branch goes, here and there; nothing else is there than before it. */
  const removeOld = async (coppice: TestCoppice, volumes_before: number) => {
    await coppice.must('DELETE', `${base.path}/branches/${(await findOld(coppice)).id}`);
    await coppice.settled(base.id);
    assert.deepEqual(await timelinesStored(), []);
    await until(async () => (await volumes()) === volumes_before, { what: 'its volumes to be gone', timeout_ms });
  };

  /** A branch that was to become what the archived one is stays what it was. */
  const refusesRestore = async (coppice: TestCoppice) => {
    const { branch } = await coppice.must('POST', `${base.path}/branches`, { branch: { name: 'target' } });
    const path = `${base.path}/branches/${branch.id}`;
    const isReady = async () => (await coppice.must('GET', path)).branch.current_state === 'ready';
    await until(isReady, { what: 'the target to be ready', timeout_ms });
    const { id } = await findOld(coppice);
    const restored = await coppice.must('POST', `${path}/restore`, { source_branch_id: id });
    assert.equal(restored.branch.current_state, 'resetting');
    await until(isReady, { what: 'the restore to be given up', timeout_ms });
    assert.equal((await coppice.must('GET', path)).branch.parent_id, base.branch_id);
    await coppice.must('DELETE', path);
  };

  for (const point of [...GOING, ...COMING]) {
    it(`is whole when Coppice is killed at ${point}`, async () => {
      const volumes_before = await volumes();
      if (COMING.includes(point)) {
        const running = await killed.running();
        await createArchived(running);
        await running.settled(base.id);
      }
      await killed.killAt(point, GOING.includes(point) ? createArchived : use);

      const next = await killed.running();
      await next.settled(base.id);
      if (GOING.includes(point)) {
        assert.equal((await findOld(next)).current_state, 'archived');
        assert.equal(await volumes(), volumes_before);
        assert.equal((await use(next)).status, 201);
      }
      assert.deepEqual(await rowsOf(next), ['kept']);
      assert.equal((await findOld(next)).current_state, 'ready');
      await removeOld(next, volumes_before);
    });
  }

  it('takes nothing from this machine while it cannot be written to', async () => {
    const volumes_before = await volumes();
    const coppice = await killed.running();
    try {
      await rm(objects, { recursive: true, force: true });
      await writeFile(objects, 'in the way');
      assert.equal((await createArchived(coppice)).status, 201);
      const failed = await untilEnded(coppice, base, 'timeline_archive');
      assert.equal(failed.status, 'failed');
      assert.match(failed.error!, /object storage/);
      assert.equal((await findOld(coppice)).current_state, 'ready');
      assert.equal((await use(coppice)).status, 201);
      assert.deepEqual(await rowsOf(coppice), ['kept']);
      await rm(objects);
      await coppice.must('DELETE', `${base.path}/branches/${(await findOld(coppice)).id}`);
      await until(async () => (await volumes()) === volumes_before, { what: 'its volumes to be gone', timeout_ms });
    } finally {
      await rm(objects, { recursive: true, force: true });
    }
  });

  it('says what is damaged, and has it again when that is mended, even if Coppice is killed at its end', async () => {
    const volumes_before = await volumes();
    const coppice = await killed.running();
    await createArchived(coppice);
    await until(async () => (await findOld(coppice)).current_state === 'archived', {
      what: 'the branch to be archived',
    });
    const [timeline] = await timelinesStored();
    const list = join(objects, 'timelines', timeline!, 'archived/list');
    const bytes = await readFile(list);
    await chmod(list, 0o600);
    await writeFile(list, Buffer.concat([bytes.subarray(0, -4), Buffer.alloc(4)]));
    await use(coppice);
    const failed = await untilEnded(coppice, base, 'timeline_unarchive');
    assert.equal(failed.status, 'failed');
    assert.match(failed.error!, /is not what was stored there/);
    await assert.rejects(rowsOf(coppice), { code: '57P03', message: /archive.*is not what was stored there/ });
    const { rows } = await coppice.ownDatabase('select detail from coppice.history_damages where resolved_at is null');
    assert.match(rows[0].detail, /cannot be brought back from the archive/);
    await refusesRestore(coppice);
    await writeFile(`${list}.whole`, bytes);
    await rename(`${list}.whole`, list);
    await killed.killAt('timeline_unarchive:here', rowsOf);
    const next = await killed.running();
    await until(async () => (await findOld(next)).current_state === 'ready', { what: 'the branch to be back' });
    assert.deepEqual(await rowsOf(next), ['kept']);
    const { rows: left } = await next.ownDatabase('select from coppice.history_damages where resolved_at is null');
    assert.equal(left.length, 0);
    await next.must('DELETE', `${base.path}/branches/${(await findOld(next)).id}`);
    await until(async () => (await volumes()) === volumes_before, { what: 'its volumes to be gone', timeout_ms });
  });
});

/** The newest operation of a kind, once all its attempts are over. */
async function untilEnded(
  coppice: TestCoppice,
  { path }: LiveProject,
  action: string,
): Promise<{ status: string; error?: string }> {
  let found: { status: string; error?: string } | undefined;
  const ended = async () => {
    const { operations } = await coppice.must('GET', `${path}/operations`);
    found = operations.find((operation: { action: string }) => operation.action === action);
    return found !== undefined && !['running', 'scheduling'].includes(found.status);
  };
  await until(ended, { what: `${action} to end`, timeout_ms });
  return found!;
}
