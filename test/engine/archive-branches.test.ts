import assert from 'node:assert/strict';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { makeDataDirectory, removeDataDirectory, startCoppice, type TestCoppice } from '../support/coppice.ts';
import { query } from '../support/customer.ts';
import { createLiveProject, type LiveProject, liveProject } from '../support/live-project.ts';
import { until } from '../support/until.ts';

const names = async (uri: string) => (await query(uri, 'select name from held order by name')).map(({ name }) => name);

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
    until(async () => (await shown(branch)).current_state === 'archived', { what: 'the branch to be archived' });
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

  it('leaves nothing on this machine when nobody has touched it for long, and is whole when somebody connects', async () => {
    const child = await createChild();
    await query(child.uri, "insert into held values ('child')");
    const timeline = await timelineOf(child);
    await child.suspend();
    await untilArchived(child);
    await coppice.settled(parent.id);
    assert.deepEqual(await local(timeline), []);
    assert.ok((await stored(timeline)).includes('list'));
    assert.deepEqual(await names(child.uri), ['child', 'parent']);
    assert.equal((await shown(child)).current_state, 'ready');
    await until(async () => (await stored(timeline)).length === 0, { what: 'the objects to be removed' });
  });
});
