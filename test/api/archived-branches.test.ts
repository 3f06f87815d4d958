import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { createCall } from '../../src/store/calls.ts';
import { isInObjectStorage } from '../../src/store/directory.ts';
import { startTestApi, type TestApi } from '../support/api-server.ts';
import {
  createReadyBranch,
  createSleepingProject,
  finishOperations,
  observeEndpoint,
  type TestProject,
} from '../support/project.ts';

interface Shown {
  readonly action: string;
  readonly status: string;
  readonly branch_id: string;
}

describe('archived branches', () => {
  let api: TestApi;
  let project: TestProject;
  before(async () => {
    api = await startTestApi();
    project = await createSleepingProject(api);
  });
  after(() => api?.close());

  const branches = () => `/projects/${project.id}/branches`;
  const shown = async (id: string) => (await api.call('GET', `${branches()}/${id}`)).body.branch;
  const archived = async (name: string, parent_id = project.branch_id) => {
    const { branch } = await createReadyBranch(api, project, { name, parent_id, archived: true });
    return branch.id as string;
  };
  /** Archives a branch that was ready, as the engine would have it seen. */
  const archive = (id: string) =>
    api.context.store
      .updateTable('timelines')
      .from('branches')
      .set({ archived_at: new Date() })
      .whereRef('branches.timeline_id', '=', 'timelines.id')
      .where('branches.id', '=', id)
      .execute();
  const actions = (operations: Shown[]) => operations.map(({ action, branch_id }) => [action, branch_id]);
  const unfinished = async (): Promise<Shown[]> => {
    const { body } = await api.call('GET', `/projects/${project.id}/operations`);
    return body.operations.filter(({ status }: Shown) => ['running', 'scheduling'].includes(status));
  };

  it('are made as such when asked for, without endpoints', async () => {
    const { status, body } = await api.call('POST', branches(), { body: { branch: { name: 'old', archived: true } } });
    assert.equal(status, 201);
    assert.deepEqual(actions(body.operations), [
      ['create_branch', body.branch.id],
      ['timeline_archive', body.branch.id],
    ]);
    assert.equal((await shown(body.branch.id)).pending_state, 'archived');
    await finishOperations(api, project.id);
    const { current_state, pending_state } = await shown(body.branch.id);
    assert.deepEqual([current_state, pending_state], ['archived', undefined]);
    for (const wrong of [
      { branch: { archived: true }, endpoints: [{ type: 'read_write' }] },
      { branch: { archived: true, protected: true } },
    ]) {
      assert.equal((await api.call('POST', branches(), { body: wrong })).status, 400);
    }
  });

  it('come back for a child, an endpoint, a role, or to be protected or the default', async () => {
    const id = await archived('needed');
    const path = `${branches()}/${id}`;
    const calls: [string, string, unknown][] = [
      ['POST', branches(), { branch: { parent_id: id } }],
      ['POST', `/projects/${project.id}/endpoints`, { endpoint: { branch_id: id, type: 'read_only' } }],
      ['POST', `/projects/${project.id}/endpoints`, { endpoint: { branch_id: id, type: 'read_write' } }],
      ['POST', `${path}/roles`, { role: { name: 'another' } }],
      ['PATCH', path, { branch: { protected: true } }],
      ['POST', `${path}/set_as_default`, undefined],
    ];
    for (const [method, called, body] of calls) {
      await archive(id);
      const answer = await api.call(method, called, { body });
      assert.ok(answer.status < 300, JSON.stringify(answer.body));
      assert.deepEqual(actions(answer.body.operations)[0], ['timeline_unarchive', id], `${method} ${called}`);
      assert.equal((await shown(id)).pending_state, 'ready');
      await finishOperations(api, project.id);
      assert.equal((await shown(id)).current_state, 'ready');
    }
    await api.call('POST', `${branches()}/${project.branch_id}/set_as_default`);
  });

  it('bring their ancestors back, by operations of their own', async () => {
    const top = await archived('top');
    const middle = (await createReadyBranch(api, project, { name: 'middle', parent_id: top })).branch.id;
    const below = (await createReadyBranch(api, project, { name: 'below', parent_id: middle })).branch.id;
    const beside = (await createReadyBranch(api, project, { name: 'beside', parent_id: middle })).branch.id;
    for (const id of [beside, below, middle, top]) await archive(id);
    const { body } = await api.call('POST', branches(), { body: { branch: { parent_id: below } } });
    assert.deepEqual(actions(body.operations), [
      ['timeline_unarchive', below],
      ['create_branch', body.branch.id],
    ]);
    const all = (await unfinished()).filter(({ action }) => action === 'timeline_unarchive');
    assert.deepEqual(all.map(({ branch_id }) => branch_id).sort(), [top, middle, below].sort());
    await finishOperations(api, project.id);
    assert.equal((await shown(beside)).current_state, 'archived');
  });

  it('are not archived when they are needed before', async () => {
    const { body } = await api.call('POST', branches(), { body: { branch: { name: 'early', archived: true } } });
    const { id } = body.branch;
    const child = await api.call('POST', branches(), { body: { branch: { parent_id: id } } });
    assert.equal(child.body.code, '', 'it is not ready yet');
    await api.context.store
      .updateTable('timelines')
      .from('branches')
      .set({ ready_at: new Date() })
      .whereRef('branches.timeline_id', '=', 'timelines.id')
      .where('branches.id', '=', id)
      .execute();
    assert.equal((await api.call('POST', branches(), { body: { branch: { parent_id: id } } })).status, 201);
    const operations = await unfinished();
    assert.equal(
      operations.find(({ action }) => action === 'timeline_archive'),
      undefined,
    );
    await finishOperations(api, project.id);
  });

  it('are deleted where they are', async () => {
    const id = await archived('unloved');
    const { status, body } = await api.call('DELETE', `${branches()}/${id}`);
    assert.equal(status, 200);
    assert.deepEqual(actions(body.operations), [['delete_timeline', id]]);
    await finishOperations(api, project.id);
  });
});

describe('a detached project', () => {
  let api: TestApi;
  let project: TestProject;
  before(async () => {
    api = await startTestApi();
    project = await createSleepingProject(api);
  });
  after(() => api?.close());

  const branches = () => `/projects/${project.id}/branches`;
  /** As the engine would have it seen. */
  const detach = async () => {
    const now = new Date();
    const { store } = api.context;
    await store
      .updateTable('timelines')
      .set({ archived_at: now, detached_at: now })
      .where('project_id', '=', project.id)
      .where('archived_at', 'is', null)
      .execute();
  };
  const first = ({ operations }: { operations: Shown[] }) => operations[0]!.action;

  it('looks as any other', async () => {
    const old = (await createReadyBranch(api, project, { name: 'old', archived: true })).branch.id;
    // What the gateway asks before it tells a client why it waits.
    const away = () =>
      Promise.all([project.branch_id, project.endpoint_id, old].map((id) => isInObjectStorage(api.context.store, id)));
    assert.deepEqual(await away(), [false, false, true]);
    await detach();
    assert.deepEqual(await away(), [true, true, true]);
    for (const path of ['', '/branches', '/endpoints', '/operations', '/snapshots', `/branches/${project.branch_id}`]) {
      assert.equal((await api.call('GET', `/projects/${project.id}${path}`)).status, 200);
    }
    const shown = async (id: string) => (await api.call('GET', `${branches()}/${id}`)).body.branch;
    assert.deepEqual((await shown(project.branch_id)).current_state, 'ready');
    assert.deepEqual((await shown(old)).current_state, 'archived');
    const { body } = await api.call('GET', `/projects/${project.id}/operations`);
    assert.ok(!body.operations.some(({ action }: Shown) => action === 'tenant_reattach'));
  });

  it('comes back as a whole for whoever needs a volume of it', async () => {
    const calls: [string, string, unknown][] = [
      ['POST', branches(), { branch: {} }],
      ['POST', `/projects/${project.id}/endpoints/${project.endpoint_id}/start`, undefined],
      ['POST', `/projects/${project.id}/endpoints`, { endpoint: { branch_id: project.branch_id, type: 'read_only' } }],
      ['POST', `${branches()}/${project.branch_id}/roles`, { role: { name: 'another' } }],
      ['POST', `${branches()}/${project.branch_id}/snapshot?name=kept`, undefined],
    ];
    for (const [method, called, body] of calls) {
      await observeEndpoint(api, project.endpoint_id, 'stopped');
      await detach();
      const answer = await api.call(method, called, { body });
      assert.ok(answer.status < 300, JSON.stringify(answer.body));
      const all: Shown[] = (await api.call('GET', `/projects/${project.id}/operations`)).body.operations;
      const unfinished = all.filter(({ status }) => ['running', 'scheduling'].includes(status));
      assert.equal(unfinished.at(-1)!.action, 'tenant_reattach', `${method} ${called}`);
      assert.ok(unfinished.length > 1);
      await finishOperations(api, project.id);
    }
  });

  it('stays so for what needs none', async () => {
    const kept = await createReadyBranch(api, project, { name: 'kept' });
    const doomed = await createReadyBranch(api, project, { name: 'doomed' });
    await detach();
    const path = `${branches()}/${kept.branch.id}`;
    const calls: [string, string, unknown][] = [
      ['PATCH', path, { branch: { protected: true } }],
      ['POST', `${path}/set_as_default`, undefined],
      ['PATCH', `/projects/${project.id}`, { project: { name: 'renamed' } }],
      ['DELETE', `${branches()}/${doomed.branch.id}`, undefined],
    ];
    for (const [method, called, body] of calls) {
      const answer = await api.call(method, called, { body });
      assert.ok(answer.status < 300, JSON.stringify(answer.body));
      const operations: Shown[] = answer.body.operations ?? [];
      assert.ok(!operations.some(({ action }) => action === 'tenant_reattach'), `${method} ${called}`);
      await finishOperations(api, project.id);
    }
  });

  it('is not detached when it is needed before', async () => {
    const { store } = api.context;
    await api.call('POST', `/projects/${project.id}/endpoints/${project.endpoint_id}/start`);
    await finishOperations(api, project.id);
    await store
      .updateTable('timelines')
      .set({ volume: JSON.stringify({ driver: 'copy', id: 'any' }) })
      .where('project_id', '=', project.id)
      .where('archived_at', 'is', null)
      .execute();
    await store.transaction().execute((trx) => createCall(trx, project.id, [{ action: 'tenant_detach' }]));
    const { body } = await api.call('POST', branches(), { body: { branch: {} } });
    assert.equal(first(body), 'tenant_reattach', 'it may be too late');
    const all: Shown[] = (await api.call('GET', `/projects/${project.id}/operations`)).body.operations;
    assert.equal(all.find(({ action }) => action === 'tenant_detach')?.status, 'cancelled');
    await finishOperations(api, project.id);
  });
});

describe('a Coppice without object storage', () => {
  it('refuses to make archived branches', async () => {
    const api = await startTestApi({ installation: { object_storage: false } });
    try {
      const project = await createSleepingProject(api);
      const { status, body } = await api.call('POST', `/projects/${project.id}/branches`, {
        body: { branch: { archived: true } },
      });
      assert.equal(status, 501);
      assert.match(body.message, /archived.*object storage/);
    } finally {
      await api.close();
    }
  });
});
