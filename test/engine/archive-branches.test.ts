import assert from 'node:assert/strict';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { makeDataDirectory, removeDataDirectory, startCoppice, type TestCoppice } from '../support/coppice.ts';
import { query } from '../support/customer.ts';
import { createLiveProject, type LiveProject, liveProject } from '../support/live-project.ts';
import { until } from '../support/until.ts';

const names = async (uri: string) => (await query(uri, 'select name from held order by name')).map(({ name }) => name);

/** A machine that tests something else, too, is slow. */
const timeout_ms = 120_000;

describe('an archived branch', { timeout: 600_000 }, () => {
  let coppice: TestCoppice;
  let parent: LiveProject;
  let objects: string;

  before(async () => {
    const data_directory = await makeDataDirectory();
    objects = join(data_directory, '..', 'objects');
    coppice = await startCoppice({
      data_directory,
      env: { COPPICE_OBJECTS: objects, COPPICE_ARCHIVE_BRANCHES_AFTER_SECONDS: '2' },
    });
    parent = await createLiveProject(coppice);
    await query(parent.uri, "create table held as select 'parent' as name");
  });
  after(async () => {
    await coppice?.stop();
    if (coppice) await removeDataDirectory(coppice.data_directory);
  });

  const createChild = async (branch: object = {}): Promise<LiveProject> => {
    const body = { branch, endpoints: [{ type: 'read_write' }] };
    const child = liveProject(coppice, await coppice.must('POST', `${parent.path}/branches`, body));
    await coppice.settled(parent.id);
    return child;
  };
  const shown = async ({ branch_path }: LiveProject) => (await coppice.must('GET', branch_path)).branch;
  const timelineOf = async ({ branch_id }: LiveProject): Promise<string> => {
    const { rows } = await coppice.ownDatabase(`select timeline_id from coppice.branches where id = '${branch_id}'`);
    return rows[0].timeline_id;
  };
  const untilArchived = (branch: LiveProject) =>
    until(async () => (await shown(branch)).current_state === 'archived', {
      what: 'the branch to be archived',
      timeout_ms,
    });
  const stored = async (timeline: string): Promise<string[]> =>
    readdir(join(objects, 'timelines', timeline, 'archived'), { recursive: true }).catch(() => []);
  const local = async (timeline: string): Promise<string[]> => {
    const { rows } = await coppice.ownDatabase(
      `select id::text from coppice.timeline_snapshots where timeline_id = '${timeline}'`,
    );
    const known = new Set([timeline, ...rows.map(({ id }) => id)]);
    const volumes = await readdir(join(coppice.data_directory, 'storage/volumes'));
    const archives = await readdir(join(coppice.data_directory, 'archive')).catch(() => []);
    return [...volumes, ...archives].filter((name) => known.has(name));
  };

  const settle = () => coppice.settled(parent.id);

  it('leaves nothing on this machine when nobody has touched it for long, and is whole when somebody connects', async () => {
    const child = await createChild();
    await query(child.uri, "insert into held values ('child')");
    const timeline = await timelineOf(child);
    await child.suspend();
    await untilArchived(child);
    await settle();
    assert.deepEqual(await local(timeline), []);
    assert.ok((await stored(timeline)).includes('list'));
    assert.deepEqual(await names(child.uri), ['child', 'parent']);
    assert.equal((await shown(child)).current_state, 'ready');
    await until(async () => (await stored(timeline)).length === 0, { what: 'the objects to be removed', timeout_ms });
    assert.equal((await shown(parent)).current_state, 'ready', 'the default branch stays');
  });

  it('has its past when it comes back, for a branch at a point', async () => {
    const child = await createChild();
    await query(child.uri, "insert into held values ('before')");
    const [{ lsn }] = await query(child.uri, 'select pg_current_wal_insert_lsn()::text as lsn');
    await query(child.uri, 'delete from held');
    // Several segments, which are archived.
    await query(child.uri, 'create table filler as select repeat(md5(i::text), 30) from generate_series(1, 5000) i');
    await child.suspend();
    await untilArchived(child);
    await settle();
    const past = await createChild({ parent_id: child.branch_id, parent_lsn: lsn });
    assert.deepEqual(await names(past.uri), ['before', 'parent']);
    assert.deepEqual(await names(child.uri), []);
  });

  it('is archived after its children, and comes back with them', async () => {
    const upper = await createChild({ name: 'upper' });
    const lower = await createChild({ name: 'lower', parent_id: upper.branch_id });
    await upper.suspend();
    await query(lower.uri, "insert into held values ('lower')");
    await lower.suspend();
    await untilArchived(upper);
    assert.equal((await shown(lower)).current_state, 'archived', 'not before its child');
    assert.deepEqual(await names(lower.uri), ['lower', 'parent']);
    await settle();
    assert.equal((await shown(upper)).current_state, 'ready');
  });

  it('comes back for its read replica, which is a copy of it again, and for its primary', async () => {
    const child = await createChild({ name: 'with a replica' });
    const added = await coppice.must('POST', `${parent.path}/endpoints`, {
      endpoint: { branch_id: child.branch_id, type: 'read_only' },
    });
    await settle();
    const replica = { ...child, uri: child.uri.replaceAll(child.endpoint_id, added.endpoint.id) };
    const replica_path = `${parent.path}/endpoints/${added.endpoint.id}`;
    const replicaVolumes = async () => {
      const volumes = await readdir(join(coppice.data_directory, 'storage/volumes'));
      return volumes.filter((name) => name === added.endpoint.id);
    };
    const archive = async () => {
      await coppice.must('POST', `${replica_path}/suspend`);
      await child.suspend();
      await untilArchived(child);
      await settle();
      assert.deepEqual(await local(await timelineOf(child)), []);
      assert.deepEqual(await replicaVolumes(), []);
    };
    await query(child.uri, "insert into held values ('first')");
    assert.equal((await replicaVolumes()).length, 1, 'it had a volume');
    await archive();
    assert.deepEqual(await names(replica.uri), ['first', 'parent']);
    assert.equal(await child.state(), 'idle', 'the primary is not woken');
    await query(child.uri, "insert into held values ('second')");
    await until(async () => (await names(replica.uri)).includes('second'), {
      what: 'the replica to follow',
      timeout_ms,
    });
    await archive();
    await coppice.must('DELETE', child.branch_path);
    await settle();
    assert.deepEqual(await stored(await timelineOf(child)), []);
    assert.deepEqual(await replicaVolumes(), []);
    assert.equal((await coppice.call('GET', replica_path)).status, 404);
  });

  it('comes back for who looks into its past', async () => {
    const { branch } = await coppice.must('POST', `${parent.path}/branches`, { branch: { archived: true } });
    const branch_path = `${parent.path}/branches/${branch.id}`;
    await settle();
    assert.equal((await coppice.must('GET', branch_path)).branch.current_state, 'archived');
    const uri = new URL(parent.uri);
    uri.searchParams.set('options', `endpoint=${branch.id} neon_timestamp:${new Date().toISOString()}`);
    assert.deepEqual(await names(uri.href), ['parent']);
    assert.equal((await coppice.must('GET', branch_path)).branch.current_state, 'ready');
  });

  it('goes from object storage when it is deleted', async () => {
    const { branch } = await coppice.must('POST', `${parent.path}/branches`, { branch: { archived: true } });
    const made = { ...parent, branch_id: branch.id, branch_path: `${parent.path}/branches/${branch.id}` };
    await settle();
    assert.equal((await shown(made)).current_state, 'archived');
    const timeline = await timelineOf(made);
    assert.ok((await stored(timeline)).includes('list'));
    assert.deepEqual(await local(timeline), []);
    await coppice.must('DELETE', made.branch_path);
    await settle();
    assert.deepEqual(await stored(timeline), []);
  });

  it('is restored without being brought back, and from it others are', async () => {
    const target = await createChild({ name: 'target' });
    const source = await createChild({ name: 'source' });
    await query(source.uri, "insert into held values ('source')");
    for (const one of [target, source]) await one.suspend();
    for (const one of [target, source]) await untilArchived(one);
    await settle();
    await coppice.must('POST', `${target.branch_path}/restore`, { source_branch_id: source.branch_id });
    await settle();
    assert.deepEqual(await names(target.uri), ['parent', 'source']);
    const brought = (await parent.operations()).filter(({ action }) => action === 'timeline_unarchive');
    assert.ok(brought.some(({ branch_id }) => branch_id === source.branch_id));
    assert.ok(!brought.some(({ branch_id }) => branch_id === target.branch_id));
  });
});
