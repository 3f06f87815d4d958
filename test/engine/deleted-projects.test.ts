import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { after, before, describe, it } from 'node:test';
import { BOOTSTRAP_KEY, removeDataDirectory, startCoppice, type TestCoppice } from '../support/coppice.ts';
import { query } from '../support/customer.ts';
import { createLiveProject, dataDirectoryOf, type LiveProject, liveProject } from '../support/live-project.ts';
import { openNeonctl } from '../support/neonctl.ts';
import { until } from '../support/until.ts';

const timeout_ms = 120_000;

describe('deleted projects and branches that are kept', { timeout: 600_000 }, () => {
  let coppice: TestCoppice;
  const start = (seconds: string) =>
    startCoppice({
      data_directory: coppice?.data_directory,
      env: { COPPICE_KEEP_DELETED_PROJECTS_SECONDS: seconds, COPPICE_KEEP_DELETED_BRANCHES_SECONDS: seconds },
    });
  before(async () => {
    coppice = await start('3600');
  });
  after(async () => {
    await coppice?.stop();
    if (coppice) await removeDataDirectory(coppice.data_directory);
  });

  const count = async (from: string, { id }: LiveProject): Promise<number> =>
    (await coppice.ownDatabase(`select count(*)::int as n from coppice.${from} and project_id = '${id}'`)).rows[0].n;
  const uriOf = async ({ path, role, database }: LiveProject): Promise<string> =>
    (await coppice.must('GET', `${path}/connection_uri?role_name=${role}&database_name=${database}`)).uri;

  it('come back with what was in them, though everything was killed, and go when their time is over', async () => {
    const project = await createLiveProject(coppice);
    await query(project.uri, 'create table kept as select 42 as answer');
    await coppice.must('POST', `${project.path}/branches`, { branch: { name: 'child' } });
    await coppice.settled(project.id);
    const directory = await dataDirectoryOf(project.uri);
    await coppice.must('DELETE', project.path);
    const other = await createLiveProject(coppice);
    const branch = liveProject(
      coppice,
      await coppice.must('POST', `${other.path}/branches`, {
        branch: { name: 'branch' },
        endpoints: [{ type: 'read_write' }],
      }),
    );
    await coppice.settled(other.id);
    await query(branch.uri, 'create table kept as select 43 as answer');
    const branch_directory = await dataDirectoryOf(branch.uri);
    await coppice.must('DELETE', branch.branch_path);
    await coppice.kill();

    coppice = await start('3600');
    const stopped = async () => (await count("endpoints where observed_state = 'running'", project)) === 0;
    await until(stopped, { what: 'the compute to be stopped', timeout_ms });
    await coppice.settled(other.id);
    for (const { uri } of [project, branch]) {
      await assert.rejects(query(uri.replace(/:\d+\//, `:${coppice.pg_port}/`), 'select 1'));
    }
    const neonctl = await openNeonctl({ api_port: coppice.api_port, key: BOOTSTRAP_KEY });
    try {
      assert.match(await neonctl.run('projects', 'list', '--recoverable-only'), new RegExp(project.id));
      await neonctl.run('projects', 'recover', project.id);
      assert.match(await neonctl.run('branches', 'list', '--project-id', project.id), /child/);
    } finally {
      await neonctl.remove();
    }
    assert.deepEqual(await query(await uriOf(project), 'select answer from kept'), [{ answer: 42 }]);
    await coppice.settled(project.id);
    await coppice.must('POST', `${branch.branch_path}/recover`);
    const again = await coppice.must(
      'GET',
      `${branch.path}/connection_uri?branch_id=${branch.branch_id}&role_name=${branch.role}&database_name=${branch.database}`,
    );
    assert.equal(new URL(again.uri).hostname, new URL(branch.uri).hostname);
    assert.deepEqual(await query(again.uri, 'select answer from kept'), [{ answer: 43 }]);
    await coppice.must('DELETE', branch.branch_path);
    await coppice.settled(other.id);
    await coppice.stop();

    coppice = await start('1');
    assert.ok(existsSync(directory));
    assert.ok(existsSync(branch_directory));
    await coppice.must('DELETE', project.path);
    const purged = async () => (await count('timelines where purged_at is null', project)) === 0;
    await until(purged, { what: 'the project to be purged', timeout_ms });
    assert.equal(existsSync(directory), false);
    assert.equal((await coppice.call('POST', `${project.path}/recover`)).status, 404);
    const freed = async () => !existsSync(branch_directory);
    await until(freed, { what: 'the branch to be purged', timeout_ms });
    assert.equal((await coppice.call('POST', `${branch.branch_path}/recover`)).status, 404);
  });
});
