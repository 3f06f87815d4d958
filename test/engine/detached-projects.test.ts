import assert from 'node:assert/strict';
import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { measureTree } from '../../src/drivers/storage/measure-tree.ts';
import { makeStartedDirectory, removeDataDirectory, startCoppice, type TestCoppice } from '../support/coppice.ts';
import { query } from '../support/customer.ts';
import { cannotMount, mountFilesystem, type TestFilesystem } from '../support/filesystem.ts';
import { createLiveProject, type LiveProject, liveProject } from '../support/live-project.ts';
import { until } from '../support/until.ts';

const names = async (uri: string) => (await query(uri, 'select name from held order by name')).map(({ name }) => name);

const MEBIBYTE = 1024 ** 2;
/** A machine that tests something else, too, is slow. */
const timeout_ms = 120_000;

describe('a project that nobody has touched for long', { timeout: 900_000 }, () => {
  let filesystem: TestFilesystem | undefined;
  let coppice: TestCoppice;
  let objects: string;

  before(async () => {
    // One that shares blocks, where that can be had.
    filesystem = cannotMount ? undefined : await mountFilesystem('xfs', 3 * 1024 * MEBIBYTE);
    const data_directory = filesystem ? join(filesystem.path, 'd') : await makeStartedDirectory();
    objects = await mkdtemp(join(tmpdir(), 'objects-'));
    coppice = await startCoppice({
      data_directory,
      env: { COPPICE_OBJECTS: objects, COPPICE_DETACH_PROJECTS_AFTER_SECONDS: '2' },
    });
  });
  after(async () => {
    await coppice?.stop();
    if (filesystem) await filesystem.remove();
    else if (coppice) await removeDataDirectory(coppice.data_directory);
    await rm(objects, { recursive: true, force: true });
  });

  const createHeld = async (wanted: object = {}): Promise<LiveProject> => {
    const project = await createLiveProject(coppice, wanted);
    await query(project.uri, "create table held as select 'parent' as name");
    return project;
  };
  const createChild = async (parent: LiveProject, branch: object = {}): Promise<LiveProject> => {
    const body = { branch, endpoints: [{ type: 'read_write' }] };
    const child = liveProject(coppice, await coppice.must('POST', `${parent.path}/branches`, body));
    await coppice.settled(parent.id);
    return child;
  };
  /** What of a project, deleted or not, is known to be here or there. */
  const timelinesOf = async ({ id }: LiveProject): Promise<{ id: string; detached: boolean }[]> => {
    const { rows } = await coppice.ownDatabase(
      `select id::text, detached_at is not null as detached from coppice.timelines where project_id = '${id}'`,
    );
    return rows;
  };
  const untilDetached = async (project: LiveProject) => {
    const isDetached = async () => {
      const timelines = await timelinesOf(project);
      return timelines.some(({ detached }) => detached);
    };
    await until(isDetached, { what: 'the project to be detached', timeout_ms });
    await coppice.settled(project.id);
  };
  const stored = async (project: LiveProject): Promise<string[]> => {
    const own = new Set((await timelinesOf(project)).map(({ id }) => id));
    const there = await readdir(join(objects, 'timelines'), { recursive: true }).catch(() => [] as string[]);
    return there.filter((name) => own.has(name.split('/')[0]!) && name.endsWith('/archived/list'));
  };
  const local = async (project: LiveProject): Promise<string[]> => {
    const { rows } = await coppice.ownDatabase(
      `select timeline_snapshots.id::text from coppice.timeline_snapshots
      join coppice.timelines on timelines.id = timeline_snapshots.timeline_id where timelines.project_id = '${project.id}'
      union all select id from coppice.endpoints where project_id = '${project.id}'`,
    );
    const known = new Set([...(await timelinesOf(project)), ...rows].map(({ id }) => id));
    const volumes = await readdir(join(coppice.data_directory, 'storage/volumes'));
    const archives = await readdir(join(coppice.data_directory, 'archive')).catch(() => []);
    return [...volumes, ...archives].filter((name) => known.has(name));
  };
  const actions = async (project: LiveProject) => (await project.operations()).map(({ action }) => action);

  it('leaves nothing on this machine, and is whole again when somebody connects', async () => {
    const project = await createHeld();
    const child = await createChild(project);
    await query(child.uri, "insert into held values ('child')");
    const [{ lsn }] = await query(child.uri, 'select pg_current_wal_insert_lsn()::text as lsn');
    await query(child.uri, "delete from held where name = 'parent'");
    // Several segments, which are archived.
    await query(child.uri, 'create table filler as select repeat(md5(i::text), 30) from generate_series(1, 5000) i');
    await coppice.must('PATCH', project.branch_path, { branch: { protected: true } });
    const { snapshot } = await coppice.must('POST', `${project.branch_path}/snapshot?name=kept`);
    await coppice.settled(project.id);
    await child.suspend();
    assert.equal((await timelinesOf(project)).filter(({ detached }) => detached).length, 0, 'one of its computes runs');
    await project.suspend();
    await untilDetached(project);
    assert.deepEqual(await local(project), []);
    assert.equal((await stored(project)).length, 3, 'two branches and a snapshot');

    for (const path of ['', '/branches', '/endpoints', '/snapshots', '/operations']) {
      await coppice.must('GET', `${project.path}${path}`);
    }
    const { branches } = await coppice.must('GET', `${project.path}/branches`);
    assert.deepEqual([...new Set(branches.map((one: { current_state: string }) => one.current_state))], ['ready']);
    assert.ok(!(await actions(project)).includes('tenant_reattach'));

    assert.deepEqual(await names(child.uri), ['child']);
    assert.deepEqual(await names(project.uri), ['parent']);
    const past = await createChild(project, { parent_id: child.branch_id, parent_lsn: lsn });
    assert.deepEqual(await names(past.uri), ['child', 'parent']);
    await coppice.must('POST', `${project.path}/snapshots/${snapshot.id}/restore`, { name: 'restored' });
    await coppice.settled(project.id);
    const done = await project.operations();
    assert.deepEqual(
      done.filter(({ action }) => action.startsWith('tenant')).map(({ action, status }) => [action, status]),
      [
        ['tenant_reattach', 'finished'],
        ['tenant_detach', 'finished'],
      ],
    );
    assert.ok(done.every(({ status }) => ['finished', 'skipped'].includes(status)));
    await until(async () => (await stored(project)).length === 0, { what: 'the objects to be removed', timeout_ms });
  });

  it('gives its past to whoever asks for a point of it', async () => {
    const project = await createHeld();
    const [{ lsn }] = await query(project.uri, 'select pg_current_wal_insert_lsn()::text as lsn');
    await query(project.uri, 'delete from held');
    await project.suspend();
    await untilDetached(project);
    const past = await createChild(project, { parent_lsn: lsn });
    assert.deepEqual(await names(past.uri), ['parent']);
    assert.deepEqual(await names(project.uri), []);
  });

  it('loses branches and snapshots that are deleted or expire, without coming back for that', async () => {
    const project = await createHeld();
    const doomed = await createChild(project, { name: 'doomed' });
    const passing = await createChild(project, { name: 'passing' });
    const { snapshot } = await coppice.must('POST', `${project.branch_path}/snapshot?name=kept`);
    await coppice.settled(project.id);
    for (const one of [doomed, passing, project]) await one.suspend();
    await untilDetached(project);
    assert.equal((await stored(project)).length, 4);
    await coppice.must('PATCH', passing.branch_path, {
      branch: { expires_at: new Date(Date.now() + 2_000).toISOString() },
    });
    await coppice.must('DELETE', doomed.branch_path);
    await coppice.must('DELETE', `${project.path}/snapshots/${snapshot.id}`);
    await until(async () => (await stored(project)).length === 1, { what: 'three of four to be gone', timeout_ms });
    await coppice.settled(project.id);
    assert.ok(!(await actions(project)).includes('tenant_reattach'));
    assert.deepEqual(await names(project.uri), ['parent']);
  });

  it('shares among its branches again what they have in common', { skip: cannotMount }, async () => {
    // Without snapshots of their own, which would share it with them.
    const project = await createHeld({ history_retention_seconds: 0 });
    await query(
      project.uri,
      'create table large as select i, repeat(md5(i::text), 30) from generate_series(1, 80000) i',
    );
    // Else whoever reads it first would write on every page.
    await query(project.uri, 'vacuum large');
    await project.suspend();
    const child = await createChild(project);
    await query(child.uri, "insert into held values ('child')");
    await child.suspend();
    await untilDetached(project);
    assert.deepEqual(await names(child.uri), ['child', 'parent']);
    assert.deepEqual(await query(child.uri, 'select count(*)::int, max(i) from large'), [
      { count: 80_000, max: 80_000 },
    ]);
    const { rows } = await coppice.ownDatabase(
      `select timeline_id::text as id from coppice.branches where id = '${child.branch_id}'`,
    );
    const path = join(coppice.data_directory, 'storage/volumes', rows[0].id);
    const { logical_bytes, unshared_bytes } = measureTree({ path, extents: true }, () => undefined);
    assert.ok(logical_bytes > 80 * MEBIBYTE, `${logical_bytes}`);
    assert.ok(unshared_bytes! < 48 * MEBIBYTE, `${unshared_bytes} of ${logical_bytes}`);
  });

  it('goes from object storage when it is deleted', async () => {
    const project = await createHeld();
    await project.suspend();
    await untilDetached(project);
    assert.equal((await stored(project)).length, 1);
    await coppice.must('DELETE', project.path);
    await until(async () => (await stored(project)).length === 0, { what: 'its objects to be removed', timeout_ms });
  });
});
