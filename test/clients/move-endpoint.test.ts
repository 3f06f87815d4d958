import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import pg from 'pg';
import { removeDataDirectory, startCoppice, type TestCoppice } from '../support/coppice.ts';
import { until } from '../support/until.ts';

describe('an endpoint that is moved to another branch', { timeout: 180_000 }, () => {
  let coppice: TestCoppice;
  before(async () => {
    coppice = await startCoppice();
  });
  after(async () => {
    await coppice?.stop();
    if (coppice) await removeDataDirectory(coppice.data_directory);
  });

  const query = async (connectionString: string, sql: string) => {
    const client = new pg.Client({ connectionString });
    await client.connect();
    try {
      return (await client.query(sql)).rows;
    } finally {
      await client.end();
    }
  };

  it('serves that branch from the moment it was moved, running or asleep, and never the other one', async () => {
    const created = await coppice.must('POST', '/projects', { project: {} });
    const { id } = created.project;
    const [endpoint] = created.endpoints;
    const uri = created.connection_uris[0].connection_uri;
    await coppice.settled(id);
    await query(uri, "create table here as select 'main' as branch");
    const branches = `/projects/${id}/branches`;
    const child = await coppice.must('POST', branches, { branch: { name: 'child' } });
    await coppice.settled(id);
    await query(uri, 'create role only_in_main login');

    // While it runs: whoever comes next reaches the child, which has the table as it was.
    const moved = await coppice.must('PATCH', `/projects/${id}/endpoints/${endpoint.id}`, {
      endpoint: { branch_id: child.branch.id },
    });
    assert.deepEqual(
      moved.operations.map(({ action }: { action: string }) => action),
      ['apply_config', 'suspend_compute'],
    );
    await query(uri, "update here set branch = 'child'");
    assert.deepEqual(await query(uri, "select rolname from pg_roles where rolname = 'only_in_main'"), []);
    await coppice.settled(id);

    // Asleep, and back: the other branch was never written to.
    await coppice.must('POST', `/projects/${id}/endpoints/${endpoint.id}/suspend`);
    await coppice.settled(id);
    await coppice.must('PATCH', `/projects/${id}/endpoints/${endpoint.id}`, {
      endpoint: { branch_id: created.branch.id },
    });
    assert.deepEqual(await query(uri, 'select branch from here'), [{ branch: 'main' }]);
    await coppice.settled(id);

    // The branch that it left can be deleted under it.
    await coppice.must('DELETE', `${branches}/${child.branch.id}`);
    await coppice.settled(id);
    assert.deepEqual(await query(uri, 'select branch from here'), [{ branch: 'main' }]);
  });

  it('that is a read replica follows the other branch from then on, running or asleep', async () => {
    const created = await coppice.must('POST', '/projects', { project: {} });
    const { id } = created.project;
    const uri = created.connection_uris[0].connection_uri;
    await coppice.settled(id);
    await query(uri, "create table here as select 'main' as branch");
    const made = await coppice.must('POST', `/projects/${id}/branches`, {
      branch: { name: 'child' },
      endpoints: [{ type: 'read_write' }],
    });
    await coppice.settled(id);
    const child_uri = made.connection_uris[0].connection_uri;
    await query(child_uri, "update here set branch = 'child'");
    const { endpoint } = await coppice.must('POST', `/projects/${id}/endpoints`, {
      endpoint: { branch_id: created.branch.id, type: 'read_only' },
    });
    await coppice.settled(id);
    const replica_uri = uri.replaceAll(created.endpoints[0].id, endpoint.id);
    const path = `/projects/${id}/endpoints/${endpoint.id}`;
    const move = (branch_id: string) => coppice.must('PATCH', path, { endpoint: { branch_id } });
    const shows = async (branch: string) =>
      (await query(replica_uri, 'select branch from here')).some((row) => row.branch === branch);
    assert.deepEqual(await query(replica_uri, 'select branch from here'), [{ branch: 'main' }]);

    // While it runs: nobody who comes after the answer sees the branch that it left.
    const moved = await move(made.branch.id);
    assert.equal(moved.endpoint.branch_id, made.branch.id);
    assert.deepEqual(
      moved.operations.map(({ action }: { action: string }) => action),
      ['suspend_compute'],
    );
    assert.deepEqual(await query(replica_uri, 'select branch from here'), [{ branch: 'child' }]);
    await coppice.settled(id);
    await query(child_uri, "insert into here values ('child again')");
    await until(() => shows('child again'), { what: 'the replica to follow' });

    // Asleep, and back.
    await coppice.must('POST', `${path}/suspend`);
    await coppice.settled(id);
    await query(uri, "insert into here values ('main again')");
    await move(created.branch.id);
    await until(() => shows('main again'), { what: 'the replica to follow' });
    assert.equal(await shows('child'), false);
    await coppice.settled(id);

    // The branch that it left can be deleted under it.
    await coppice.must('DELETE', `/projects/${id}/branches/${made.branch.id}`);
    await coppice.settled(id);
    assert.equal(await shows('main'), true);
  });
});
