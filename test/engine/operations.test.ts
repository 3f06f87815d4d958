import assert from 'node:assert/strict';
import { readdir, rename } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { isProcess } from '../../src/drivers/compute/process/processes.ts';
import { removeDataDirectory, startCoppice, type TestCoppice } from '../support/coppice.ts';
import { query, refusal } from '../support/customer.ts';
import {
  createLiveProject,
  dataDirectoryOf,
  type LiveProject,
  liveProject,
  postmasterPid,
} from '../support/live-project.ts';
import { until } from '../support/until.ts';

const ENDED = ['finished', 'skipped', 'cancelled'];

describe('operations', { timeout: 240_000 }, () => {
  let coppice: TestCoppice;
  let project: LiveProject;

  before(async () => {
    coppice = await startCoppice();
    project = await createLiveProject(coppice);
  });
  after(async () => {
    await coppice?.stop();
    if (coppice) await removeDataDirectory(coppice.data_directory);
  });

  const volumes = async () =>
    (await readdir(join(coppice.data_directory, 'storage/volumes'))).filter((name) => !name.startsWith('template-'));
  const timelineOf = async (branch_id: string): Promise<string> =>
    (await coppice.ownDatabase(`select timeline_id from coppice.branches where id = '${branch_id}'`)).rows[0]
      .timeline_id;
  const untilGone = async (branch_id: string) => {
    const timeline = await timelineOf(branch_id);
    await until(async () => !(await volumes()).some((name) => name.includes(timeline)), { what: 'the volume to go' });
  };
  /** Makes the starts of a project's compute fail until the returned function is called. */
  const breakStarts = async ({ uri, suspend }: LiveProject) => {
    const control = join(await dataDirectoryOf(uri), 'global/pg_control');
    await suspend();
    await rename(control, `${control}.away`);
    return () => rename(`${control}.away`, control);
  };
  const start = async ({ endpoint_path }: LiveProject) =>
    (await coppice.must('POST', `${endpoint_path}/start`)).operations[0].id;
  const untilFailing = async (of: LiveProject, id: string) => {
    await until(async () => (await of.operation(id)).failures_count > 0, { what: 'a failure', interval_ms: 5 });
    return of.operation(id);
  };

  it('on one branch run in the order in which they were asked for, none lost', async () => {
    const names = Array.from({ length: 10 }, (_, index) => `role_${index}`);
    await Promise.all(names.map((name) => coppice.must('POST', `${project.branch_path}/roles`, { role: { name } })));
    await coppice.settled(project.id);
    const { rows: asked } = await coppice.ownDatabase(
      `select name from coppice.roles where branch_id = '${project.branch_id}' and name like 'role\\_%' order by id`,
    );
    const made = await query(
      project.uri,
      "select rolname as name from pg_roles where rolname like 'role\\_%' order by oid",
    );
    assert.deepEqual(made, asked);
    assert.equal(made.length, names.length);

    const ran = (await project.operations()).filter(({ action }) => action === 'apply_config');
    assert.equal(ran.length, 10);
    assert.ok(ran.every(({ status }) => status === 'finished'));
    const { rows: times } = await coppice.ownDatabase(`
      select started_at, finished_at from coppice.operations
      where project_id = '${project.id}' and action = 'apply_config' order by created_at`);
    for (const [index, { started_at }] of times.entries()) {
      if (index > 0) assert.ok(started_at >= times[index - 1].finished_at, 'one at a time');
    }
  });

  it('that make branches of one parent at once all end well', async () => {
    const created = await Promise.all(
      Array.from({ length: 5 }, () =>
        coppice.must('POST', `${project.path}/branches`, { endpoints: [{ type: 'read_write' }] }),
      ),
    );
    await coppice.settled(project.id);
    for (const { branch, connection_uris } of created) {
      // Ten roles were made before: a string without them is not given.
      assert.equal(connection_uris, undefined);
      assert.equal((await coppice.must('GET', `${project.path}/branches/${branch.id}`)).branch.current_state, 'ready');
    }
    await Promise.all(created.map(({ branch }) => coppice.must('DELETE', `${project.path}/branches/${branch.id}`)));
    await Promise.all(created.map(({ branch }) => untilGone(branch.id)));
  });

  it('that would stop what starts are refused with 423 until it has started', async () => {
    await project.suspend();
    const starting = coppice.must('POST', `${project.endpoint_path}/start`);
    const suspend = () => coppice.call('POST', `${project.endpoint_path}/suspend`);
    await starting;
    const answers = [await suspend(), await coppice.call('POST', `${project.endpoint_path}/restart`)];
    for (const { status, headers } of answers) {
      // It may have started in the meantime.
      if (status === 200) continue;
      assert.equal(status, 423);
      assert.match(headers.get('retry-after') ?? '', /^[1-5]$/);
    }
    await until(async () => (await suspend()).status === 200, { what: 'a suspend to be taken' });
    await coppice.settled(project.id);
  });

  it('that fail are tried again by themselves, which shows, and finish once they can', async () => {
    const repair = await breakStarts(project);
    const id = await start(project);
    const failing = await untilFailing(project, id);
    assert.equal(failing.status, 'running');
    assert.ok(failing.retry_at, 'the time of the next attempt is told');
    assert.match(failing.error!, /pg_control/);
    await repair();
    await coppice.settled(project.id);
    const { status, failures_count, error, retry_at } = await project.operation(id);
    assert.equal(status, 'finished');
    assert.ok(failures_count > 0);
    assert.deepEqual([error, retry_at], [undefined, undefined]);
    assert.equal(await project.state(), 'active');
  });

  describe('on what is deleted', () => {
    it('end while they wait for another attempt', async () => {
      const doomed = await createLiveProject(coppice);
      await breakStarts(doomed);
      const id = await start(doomed);
      await untilFailing(doomed, id);
      await coppice.must('DELETE', doomed.endpoint_path);
      await until(async () => ENDED.includes((await doomed.operation(id)).status), { what: 'the start to end' });
      assert.equal((await doomed.operation(id)).status, 'cancelled');
      await coppice.settled(doomed.id);
      await coppice.must('DELETE', doomed.path);
      await untilGone(doomed.branch_id);
    });

    it('end while they run or wait their turn, whatever was reached', async () => {
      const parent = await createLiveProject(coppice);
      // Of each, some are deleted when they were just asked for, some a little later, some when they are done.
      for (const rounds of [0, 1, 3, 8]) {
        const { branch, endpoints } = await coppice.must('POST', `${parent.path}/branches`, {
          endpoints: [{ type: 'read_write' }],
        });
        for (let round = 0; round < rounds; round++) await parent.operations();
        await coppice.must('DELETE', `${parent.path}/branches/${branch.id}`);
        await coppice.settled(parent.id);
        await untilGone(branch.id);
        const socket = join(coppice.data_directory, 'run', endpoints[0].id);
        await until(async () => !(await readdir(join(coppice.data_directory, 'run'))).includes(endpoints[0].id), {
          what: `${socket} to go`,
        });
      }
      const running = await postmasterPid(await dataDirectoryOf(parent.uri));
      const asked = await Promise.all([
        coppice.must('POST', `${parent.path}/branches`, { endpoints: [{ type: 'read_write' }] }),
        coppice.must('POST', `${parent.branch_path}/roles`, { role: { name: 'late' } }),
        coppice.must('POST', `${parent.endpoint_path}/restart`),
      ]);
      await coppice.must('DELETE', parent.path);
      await untilGone(parent.branch_id);
      await untilGone(asked[0].branch.id);
      await until(() => !isProcess(running), { what: 'the server to end' });
      const unfinished = async () => {
        const asked = `select status from coppice.operations where project_id = '${parent.id}'`;
        return (await coppice.ownDatabase(asked)).rows.filter(({ status }) => !ENDED.includes(status));
      };
      await until(async () => (await unfinished()).length === 0, { what: 'the operations to end' });
    });

    it('end when a project goes that was just made', async () => {
      const before = await volumes();
      const created = await Promise.all(
        [0, 1, 2, 5].map(async (rounds) => {
          const made = liveProject(coppice, await coppice.must('POST', '/projects', { project: {} }));
          for (let round = 0; round < rounds; round++) await made.operations();
          await coppice.must('DELETE', made.path);
          assert.equal(await refusal(made.uri), '28P01');
          return made;
        }),
      );
      for (const { branch_id } of created) await untilGone(branch_id);
      const purged = async () =>
        (await coppice.ownDatabase('select from coppice.projects where deleted_at is not null and purged_at is null'))
          .rowCount === 0;
      await until(purged, { what: 'the projects to be purged' });
      assert.deepEqual(await volumes(), before);
    });
  });
});
