import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { createCall } from '../../src/store/calls.ts';
import { findLeftovers } from '../../src/store/watched.ts';
import { startTestApi, type TestApi } from '../support/api-server.ts';
import { createContractWorld } from '../support/contract-world.ts';
import { createReadyBranch, createSleepingProject, finishOperations } from '../support/project.ts';

const KEPT_SECONDS = 3600;

describe('deleted projects that are kept', () => {
  let api: TestApi;
  before(async () => {
    api = await startTestApi({ installation: { keep_deleted_projects_seconds: KEPT_SECONDS } });
  });
  after(() => api?.close());

  const remove = async (id: string) => assert.equal((await api.call('DELETE', `/projects/${id}`)).status, 200);
  const recover = (id: string) => api.call('POST', `/projects/${id}/recover`);
  const listed = async (query = '') =>
    (await api.call('GET', `/projects?limit=400${query}`)).body.projects as Record<string, string>[];
  const recoverable = () => listed('&recoverable=true');
  const find = (projects: Record<string, string>[], id: string) => projects.find((project) => project.id === id);
  const actionsOf = async (id: string) => {
    const { rows } = await api.store.pool.query(
      `select action from coppice.operations where project_id = $1 and status in ('scheduling', 'running')`,
      [id],
    );
    return rows.map(({ action }) => action);
  };
  const isPurgedSoon = async (id: string) =>
    (await findLeftovers(api.context.store, KEPT_SECONDS * 1000)).some(({ project_id }) => project_id === id);
  const age = (id: string) =>
    api.store.pool.query(
      `update coppice.projects set deleted_at = deleted_at - interval '${KEPT_SECONDS} seconds' where id = $1`,
      [id],
    );

  it('answer nowhere, are listed as recoverable, and come back with all that was in them', async () => {
    const { path } = await createContractWorld(api);
    const id = path.project_id!;
    await finishOperations(api, id);
    const places = ['branches', 'endpoints', 'snapshots', 'jwks', 'permissions', `branches/${path.branch_id}/roles`];
    const read = async () => {
      const found: unknown[] = [];
      for (const place of places) {
        const { body } = await api.call('GET', `/projects/${id}/${place}`);
        const [rows] = Object.values(body) as Record<string, unknown>[][];
        const shown = rows!.map(({ id: row_id, name, host, lsn }) => ({ row_id, name, host, lsn }));
        // Lists are sorted by the last change, and a deletion is one.
        found.push(shown.sort((a, b) => JSON.stringify(a).localeCompare(JSON.stringify(b))));
      }
      return found;
    };
    const before = await read();
    await remove(id);
    for (const place of ['', '/branches', `/endpoints/${path.endpoint_id}`]) {
      assert.equal((await api.call('GET', `/projects/${id}${place}`)).status, 404);
    }
    assert.equal(find(await listed(), id), undefined);
    const { deleted_at, recoverable_until } = find(await recoverable(), id)!;
    assert.equal(Date.parse(recoverable_until!) - Date.parse(deleted_at!), KEPT_SECONDS * 1000);
    assert.deepEqual(await actionsOf(id), ['suspend_compute']);
    await finishOperations(api, id);
    assert.equal(await isPurgedSoon(id), false);

    const { status, body } = await recover(id);
    assert.equal(status, 200);
    assert.deepEqual([body.project.id, body.branches.length], [id, 2]);
    assert.deepEqual(await read(), before);
    const { rows } = await api.store.pool.query(
      `select action, target ->> 'project_id' as project_id from coppice.audit_log where action = 'project.recover'`,
    );
    assert.deepEqual(rows, [{ action: 'project.recover', project_id: id }]);
    assert.equal(
      (await api.call('GET', `/projects/${id}/endpoints/${path.endpoint_id}`)).body.endpoint.current_state,
      'idle',
    );
    assert.notEqual(find(await listed(), id), undefined);
    assert.equal(find(await recoverable(), id), undefined);
    const again = await recover(id);
    assert.deepEqual([again.status, again.body.message], [422, `project is not deleted; project_id:"${id}"`]);
    await remove(id);
    assert.equal((await recover(id)).status, 200);
  });

  it('come back without what was deleted before, and without what was still being made', async () => {
    const project = await createSleepingProject(api);
    const gone = await createReadyBranch(api, project, { name: 'gone' });
    await api.call('DELETE', `/projects/${project.id}/branches/${gone.branch.id}`);
    const kept = await createReadyBranch(api, project, { name: 'kept' });
    const unfinished = await api.call('POST', `/projects/${project.id}/branches`, {
      body: { branch: { name: 'unfinished' }, endpoints: [{ type: 'read_write' }] },
    });
    assert.equal(unfinished.status, 201);
    await remove(project.id);
    const { branches } = (await recover(project.id)).body;
    assert.deepEqual(
      branches.map(({ id }: { id: string }) => id),
      [project.branch_id, kept.branch.id],
    );
    const { endpoints } = (await api.call('GET', `/projects/${project.id}/endpoints`)).body;
    assert.deepEqual(
      endpoints.map(({ id }: { id: string }) => id),
      [project.endpoint_id],
    );
    await finishOperations(api, project.id);
    const { rows } = await api.store.pool.query(
      `select count(*)::int as n from coppice.timelines where project_id = $1 and deleted_at is null`,
      [project.id],
    );
    assert.equal(rows[0].n, 2);
  });

  it('are not kept when they were not finished, or a restore is under way', async () => {
    const { body } = await api.call('POST', '/projects', { body: { project: {} } });
    await remove(body.project.id);
    assert.deepEqual(await actionsOf(body.project.id), ['delete_tenant']);
    assert.equal(find(await recoverable(), body.project.id), undefined);
    assert.equal((await recover(body.project.id)).status, 404);
    const restoring = await createSleepingProject(api);
    const child = await createReadyBranch(api, restoring, { name: 'child' });
    const source = { source_branch_id: restoring.branch_id };
    const path = `/projects/${restoring.id}/branches/${child.branch.id}/restore`;
    assert.equal((await api.call('POST', path, { body: source })).status, 200);
    await remove(restoring.id);
    assert.ok((await actionsOf(restoring.id)).includes('delete_tenant'));
  });

  it('are gone for good when the time is over, or when they have begun to go', async () => {
    const late = await createSleepingProject(api);
    await remove(late.id);
    await age(late.id);
    assert.equal(await isPurgedSoon(late.id), true);
    const going = await createSleepingProject(api);
    await remove(going.id);
    await api.context.store.transaction().execute((trx) => createCall(trx, going.id, [{ action: 'delete_tenant' }]));
    for (const { id } of [late, going]) {
      assert.equal(find(await recoverable(), id), undefined);
      const { status, body } = await recover(id);
      assert.deepEqual([status, body.message], [404, 'project not found']);
    }
  });
});
