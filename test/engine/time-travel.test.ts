import assert from 'node:assert/strict';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { LIMITS } from '../../src/domain/limits.ts';
import { removeDataDirectory, startCoppice, type TestCoppice } from '../support/coppice.ts';
import { type CustomerClient, connect, query, refusal } from '../support/customer.ts';
import { createLiveProject, type LiveProject } from '../support/live-project.ts';
import { until } from '../support/until.ts';

/** What the branch held at a moment. */
interface Mark {
  readonly rows: number;
  readonly lsn: string;
  readonly time: string;
}

describe('a look into the past of a branch', { timeout: 600_000 }, () => {
  let coppice: TestCoppice;
  let project: LiveProject;
  const marks: Mark[] = [];

  before(async () => {
    coppice = await startCoppice({ env: { COPPICE_TIME_TRAVEL_TIMEOUT_SECONDS: '2' } });
    project = await createLiveProject(coppice);
    await query(project.uri, 'create table events (id int)');
    for (let made = 0; made < 2 + LIMITS.ephemeral_branches_per_project; made++) marks.push(await commit());
  });
  after(async () => {
    await coppice?.stop();
    if (coppice) await removeDataDirectory(coppice.data_directory);
  });

  const commit = async (): Promise<Mark> => {
    await query(project.uri, 'insert into events values (1)');
    const [row] = await query(
      project.uri,
      `select pg_current_wal_insert_lsn()::text as lsn, (select count(*)::int from events) as rows,
         to_char(clock_timestamp() at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as time`,
    );
    return row as Mark;
  };
  /** The connection string of the branch at a point; `more` goes to the server. */
  const past = (point: string, more = '', branch = project.branch_id): string => {
    const uri = new URL(project.uri);
    uri.searchParams.set('options', `endpoint=${branch} neon_${point} ${more}`);
    return uri.href;
  };
  const at = ({ lsn }: Mark): string => past(`lsn:${lsn}`);
  /** A session that keeps what it looks at awake. */
  const stay = async (uri: string): Promise<CustomerClient> => {
    const client = await connect(uri);
    await client.query('begin');
    return client;
  };
  const rowsAt = async (uri: string): Promise<number> =>
    (await query(uri, 'select count(*)::int as rows from events'))[0].rows;
  const copies = async (): Promise<{ id: string; endpoint_id: string; state: string }[]> => {
    const { rows } = await coppice.ownDatabase(
      `select branches.id, endpoints.id as endpoint_id, endpoints.observed_state as state
       from coppice.branches join coppice.endpoints on endpoints.branch_id = branches.id
       where branches.ephemeral_of is not null and branches.deleted_at is null`,
    );
    return rows;
  };
  const archives = () => readdir(join(coppice.data_directory, 'storage/archive'));
  /** Nobody looks any more, and nothing is left of what was made for those who did. */
  const forgotten = async () => {
    await until(async () => (await copies()).length === 0, { what: 'the copies to go' });
    await coppice.settled(project.id);
  };

  it('shows what was committed then, by position and by time', async () => {
    assert.equal(await rowsAt(at(marks[1]!)), marks[1]!.rows);
    assert.equal(await rowsAt(past(`timestamp:${marks[4]!.time}`)), marks[4]!.rows);
    assert.equal(await rowsAt(project.uri), marks.length, 'the present is as it was');
    await forgotten();
  });

  it('is read-only, and whoever writes all the same writes to nothing', async () => {
    await using client = await connect(at(marks[2]!));
    await assert.rejects(client.query('insert into events values (2)'), { code: '25006' });
    await client.query('set default_transaction_read_only = off');
    await client.query('insert into events values (2)');
    await assert.rejects(client.query("select pg_create_logical_replication_slot('s', 'pgoutput')"), { code: /55000/ });
    // Last, since whoever pauses here for two seconds is ended.
    assert.equal(await rowsAt(project.uri), marks.length);
  });

  it('cannot be had writable by the settings of the endpoint', async () => {
    const settings = { pg_settings: { default_transaction_read_only: 'off', work_mem: '5MB' } };
    await coppice.must('PATCH', project.endpoint_path, { endpoint: { settings } });
    await coppice.settled(project.id);
    const [shown] = await query(
      at(marks[3]!),
      "select current_setting('transaction_read_only') as read_only, current_setting('work_mem') as work_mem",
    );
    assert.deepEqual(shown, { read_only: 'on', work_mem: '5MB' });
  });

  it('is shared by those who look at the same point, and goes when nobody does', async () => {
    await forgotten();
    const [first, second] = await Promise.all([stay(at(marks[5]!)), stay(at(marks[5]!))]);
    await using one = first;
    await using other = second;
    assert.equal((await copies()).length, 1);
    const [copy] = await copies();
    const server = async (client: CustomerClient) =>
      (await client.query("select current_setting('data_directory') as of")).rows[0].of;
    assert.equal(await server(one), await server(other));
    assert.equal((await archives()).length, 1, 'the log of the branch is kept, and none of the copy');
    await Promise.all([one.end(), other.end()]);
    await forgotten();
    const ours = (await project.operations()).filter(({ branch_id }) => branch_id === copy!.id);
    assert.deepEqual(ours.map(({ action }) => action).toReversed(), [
      'create_branch',
      'start_compute',
      'suspend_compute',
      'delete_timeline',
    ]);
    assert.ok(ours.every(({ status }) => status === 'finished'));
    const { rows } = await coppice.ownDatabase(
      `select count(*)::int as left from coppice.timelines where deleted_at is not null and purged_at is null`,
    );
    assert.deepEqual(rows, [{ left: 0 }]);
  });

  it('is no branch and no endpoint that anybody is shown, and nobody is in its way', async () => {
    await using client = await stay(at(marks[6]!));
    const [copy] = await copies();
    const { branches } = await coppice.must('GET', `${project.path}/branches`);
    assert.deepEqual(
      branches.map(({ id }: { id: string }) => id),
      [project.branch_id],
    );
    assert.equal((await coppice.must('GET', `${project.path}/branches/count`)).count, 1);
    const { endpoints } = await coppice.must('GET', `${project.path}/endpoints`);
    assert.deepEqual(
      endpoints.map(({ id }: { id: string }) => id),
      [project.endpoint_id],
    );
    for (const [method, path] of [
      ['GET', `/branches/${copy!.id}`],
      ['GET', `/branches/${copy!.id}/endpoints`],
      ['GET', `/branches/${copy!.id}/roles`],
      ['PATCH', `/branches/${copy!.id}`],
      ['GET', `/endpoints/${copy!.endpoint_id}`],
      ['POST', `/endpoints/${copy!.endpoint_id}/suspend`],
    ] as const) {
      const body = method === 'PATCH' ? { branch: { name: 'mine' } } : undefined;
      assert.equal((await coppice.call(method, `${project.path}${path}`, body)).status, 404, path);
    }
    for (const path of [`/branches/${copy!.id}`, `/endpoints/${copy!.endpoint_id}`]) {
      assert.equal((await coppice.call('DELETE', `${project.path}${path}`)).status, 204, 'nothing is there to delete');
    }
    const direct = new URL(project.uri);
    direct.searchParams.set('options', `endpoint=${copy!.endpoint_id}`);
    assert.equal(await refusal(direct.href), '28P01', 'it has no host of its own');
    assert.equal(await refusal(past('lsn:0/1', '', copy!.id)), '28P01', 'and no past');
    await coppice.must('PATCH', project.branch_path, { branch: { name: copy!.id } });
    assert.equal((await client.query('select 1 as one')).rows[0].one, 1);
  });

  it('is made for nobody who has a wrong password or goes where no branch is', async () => {
    await forgotten();
    const count = async () => (await project.operations()).length;
    const before_ = await count();
    const wrong = new URL(at(marks[0]!));
    wrong.password = 'wrong';
    assert.equal(await refusal(wrong.href), '28P01');
    assert.equal(await refusal(past('lsn:0/1', '', 'br-no-such-a1b2c3d4')), '28P01');
    assert.equal(await count(), before_);
    assert.deepEqual(await copies(), []);
  });

  for (const [what, point, message] of [
    ['in the future', 'timestamp:2999-01-01T00:00:00Z', /no history at 2999.*reaches from .* to /],
    ['before the branch', 'lsn:0/1', /no history at LSN 0\/1: it reaches from .*\(LSN [0-9A-F]+\/[0-9A-F]+\)/],
    ['that is no time', 'timestamp:yesterday', /neon_timestamp.*must be a time/],
    ['that is no position', 'lsn:here', /neon_lsn.*must be an LSN/],
    ['that is not said', 'lsn:', /neon_lsn.*must not be empty/],
  ] as const) {
    it(`cannot be had at a point ${what}`, () =>
      assert.rejects(query(past(point), 'select 1'), { code: '22023', message }));
  }

  it('opens to the password of now, the moment it is changed', async () => {
    await using client = await stay(at(marks[7]!));
    const { role } = await coppice.must('POST', `${project.branch_path}/roles/${project.role}/reset_password`);
    await coppice.settled(project.id);
    const old = at(marks[7]!);
    const uri = new URL(project.uri);
    uri.password = role.password;
    project = { ...project, uri: uri.href };
    assert.equal(await refusal(old), '28P01');
    assert.equal(await rowsAt(at(marks[7]!)), marks[7]!.rows);
    assert.equal((await client.query('select 1 as one')).rows[0].one, 1, 'who is there stays');
  });

  it('wakes neither the branch nor anybody else, and needs no endpoint that runs', async () => {
    await project.suspend();
    assert.equal(await rowsAt(at(marks[8]!)), marks[8]!.rows);
    assert.equal(await project.state(), 'idle');
  });

  it('is refused where too many points are looked at', async () => {
    await forgotten();
    const clients: CustomerClient[] = [];
    try {
      for (const mark of marks.slice(0, LIMITS.ephemeral_branches_per_project)) clients.push(await stay(at(mark)));
      await assert.rejects(connect(at(marks.at(-1)!)), { code: '53400', message: /10 points of the past/ });
      await using shared = await connect(at(marks[0]!));
      assert.equal((await shared.query('select 1 as one')).rows[0].one, 1);
    } finally {
      await Promise.all(clients.map((client) => client.end().catch(() => undefined)));
    }
  });

  it('ends with its branch, which nothing keeps from being deleted', async () => {
    await forgotten();
    const { branch, endpoints } = await coppice.must('POST', `${project.path}/branches`, {
      branch: {},
      endpoints: [{ type: 'read_write' }],
    });
    assert.equal(endpoints.length, 1);
    await coppice.settled(project.id);
    await using client = await stay(past(`timestamp:${new Date().toISOString()}`, '', branch.id));
    await coppice.must('DELETE', `${project.path}/branches/${branch.id}`);
    await coppice.settled(project.id);
    assert.equal(await client.broken, '57P01');
    assert.deepEqual((await copies()).filter(({ state }) => state === 'running').length, 0);
    await forgotten();
  });
});
