import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { forgetOldOperations } from '../../src/engine/chores/forget-operations.ts';
import { startTestApi, type TestApi } from '../support/api-server.ts';
import { createSleepingProject, finishOperations } from '../support/project.ts';

interface Operation {
  readonly id: string;
  readonly action: string;
  readonly status: string;
}

describe('operations', () => {
  let api: TestApi;
  let project_id: string;
  before(async () => {
    api = await startTestApi();
    ({ project_id } = await createProject());
    for (let count = 0; count < 12; count += 1) {
      await api.call('PATCH', `/projects/${project_id}`, {
        body: { project: { history_retention_seconds: 1000 + count } },
      });
    }
  });
  after(() => api?.close());

  const createProject = async () => {
    const { body } = await api.call('POST', '/projects', { body: { project: {} } });
    return { project_id: body.project.id as string, operations: body.operations as Operation[] };
  };
  const list = async (query = '') => (await api.call('GET', `/projects/${project_id}/operations${query}`)).body;

  it('are named by the errors of calls that they are in the way of, and by no others', async () => {
    const project = await createSleepingProject(api);
    const endpoint = `/projects/${project.id}/endpoints/${project.endpoint_id}`;
    const { operations } = (await api.call('POST', `${endpoint}/start`)).body;
    const elsewhere = await api.call('POST', `/projects/${project.id}/branches`, { body: { branch: { name: 'dev' } } });
    const locked = await api.call('POST', `${endpoint}/suspend`);
    assert.deepEqual(
      [locked.status, locked.headers['retry-after'], locked.body.operation_id],
      [423, '2', operations[0].id],
    );
    const { branch } = elsewhere.body;
    const child = { branch: { parent_id: branch.id } };
    const unready = await api.call('POST', `/projects/${project.id}/branches`, { body: child });
    assert.deepEqual([unready.status, unready.body.operation_id], [422, elsewhere.body.operations[0].id]);
    const refused = await api.call('DELETE', `/projects/${project.id}/branches/${project.branch_id}`);
    assert.deepEqual([refused.status, 'operation_id' in refused.body], [422, false]);
  });

  it('are forgotten some time after they ended, with their calls, and not before, and never while they have not ended', async () => {
    const project = await createSleepingProject(api);
    const branches = `/projects/${project.id}/branches`;
    await api.call('POST', branches, { body: { branch: { name: 'dev' } } });
    await finishOperations(api, project.id);
    await api.call('POST', branches, { body: { branch: { name: 'unfinished' } } });
    const statuses = async () => {
      const { operations } = (await api.call('GET', `/projects/${project.id}/operations`)).body;
      return operations.map(({ status }: Operation) => status);
    };
    const { operations } = (await api.call('GET', `/projects/${project.id}/operations`)).body;
    const all = await statuses();
    assert.deepEqual([all[0], new Set(all.slice(1))], ['running', new Set(['finished'])]);
    const { store } = api.context;
    const in_two_days = new Date(Date.now() + 2 * 86_400_000);
    await forgetOldOperations({ store, operations_retention_ms: undefined }, in_two_days);
    await forgetOldOperations({ store, operations_retention_ms: 3 * 86_400_000 }, in_two_days);
    assert.deepEqual(await statuses(), all);
    assert.equal(await forgetOldOperations({ store, operations_retention_ms: 86_400_000 }, in_two_days), false);
    assert.deepEqual(await statuses(), ['running']);
    assert.equal((await api.call('GET', `/projects/${project.id}/operations/${operations.at(-1).id}`)).status, 404);
    const { rows } = await api.store.pool.query(
      'select count(*)::int as n from coppice.calls where project_id = $1 and finished_at is not null',
      [project.id],
    );
    assert.equal(rows[0].n, 0);
    await finishOperations(api, project.id);
  });

  it('are listed newest first, all of them unless a limit is given', async () => {
    const { operations } = await list();
    assert.equal(operations.length, 14);
    const actions = operations.map((operation: Operation) => operation.action);
    assert.deepEqual(actions.slice(-3), ['apply_storage_config', 'start_compute', 'create_timeline']);
    const { rows } = await api.store.pool.query(
      'select id from coppice.operations where project_id = $1 order by created_at desc',
      [project_id],
    );
    assert.deepEqual(
      operations.map((operation: Operation) => operation.id),
      rows.map((row) => row.id),
    );
  });

  it('come in pages that neither repeat nor leave out one, also when they were made in the same microsecond', async () => {
    const all = (await list()).operations.map((operation: Operation) => operation.id);
    for (const limit of [1, 3, 14, 1000]) {
      const seen: string[] = [];
      let cursor: string | undefined;
      for (;;) {
        const page = await list(`?limit=${limit}${cursor ? `&cursor=${encodeURIComponent(cursor)}` : ''}`);
        if (page.operations.length === 0) {
          assert.equal('pagination' in page, false);
          break;
        }
        seen.push(...page.operations.map((operation: Operation) => operation.id));
        cursor = page.pagination.cursor;
        assert.match(cursor!, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$/);
      }
      assert.deepEqual(seen, all);
    }
  });

  it('are shown by id, to those who may see their project', async () => {
    const other = await createProject();
    const { id } = other.operations[0]!;
    const shown = await api.call('GET', `/projects/${other.project_id}/operations/${id}`);
    assert.deepEqual(shown.body.operation, other.operations[0]);
    const elsewhere = await api.call('GET', `/projects/${project_id}/operations/${id}`);
    assert.deepEqual([elsewhere.status, elsewhere.body.message], [404, 'operation not found']);
    const unknown = await api.call('GET', `/projects/${project_id}/operations/${crypto.randomUUID()}`);
    assert.equal(unknown.status, 404);
    assert.equal((await api.call('GET', `/projects/${project_id}/operations/1`)).status, 400);
  });

  it('show how far they are: failures while they are tried again, and how long they took', async () => {
    const { project_id: id, operations } = await createProject();
    const show = async () => (await api.call('GET', `/projects/${id}/operations/${operations[0]!.id}`)).body.operation;
    assert.deepEqual([(await show()).total_duration_ms, (await show()).failures_count], [0, 0]);
    await api.store.pool.query(
      `update coppice.operations set failures_count = 2, error = 'the disk is full', started_at = '2026-01-01T00:00:00Z',
         retry_at = '2026-01-01T00:00:09.5Z' where id = $1`,
      [operations[0]!.id],
    );
    const retried = await show();
    assert.deepEqual(
      [retried.status, retried.failures_count, retried.error, retried.retry_at],
      ['running', 2, 'the disk is full', '2026-01-01T00:00:09Z'],
    );
    await api.store.pool.query(
      `update coppice.operations set status = 'finished', retry_at = null, finished_at = '2026-01-01T00:00:01.830Z'
       where id = $1`,
      [operations[0]!.id],
    );
    const finished = await show();
    assert.deepEqual([finished.status, finished.total_duration_ms, 'retry_at' in finished], ['finished', 1830, false]);
  });

  it('are seen as they are at every request, however many ask at once', async () => {
    const { project_id: id, operations } = await createProject();
    const path = `/projects/${id}/operations/${operations[0]!.id}`;
    const ask = async () => (await api.call('GET', path)).body.operation.failures_count;
    for (let count = 1; count <= 20; count += 1) {
      const earlier = Array.from({ length: 10 }, ask);
      await api.store.pool.query('update coppice.operations set failures_count = $1 where id = $2', [
        count,
        operations[0]!.id,
      ]);
      const later = Array.from({ length: 10 }, ask);
      assert.deepEqual(await Promise.all(later), Array(10).fill(count));
      await Promise.all(earlier);
    }
  });
});
