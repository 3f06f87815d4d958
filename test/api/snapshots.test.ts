import assert from 'node:assert/strict';
import { after, before, beforeEach, describe, it } from 'node:test';
import { startTestApi, type TestApi } from '../support/api-server.ts';
import {
  createReadyBranch,
  createSleepingProject,
  finishOperations,
  observeEndpoint,
  type TestProject,
} from '../support/project.ts';

interface Shown {
  id: string;
  name: string;
  action: string;
  endpoint_id?: string;
  branch_id?: string;
}

const inSeconds = (seconds: number) => new Date(Date.now() + seconds * 1000).toISOString();
const actions = (body: { operations: Shown[] }) => body.operations.map(({ action }) => action);

describe('snapshots', () => {
  let api: TestApi;
  let project: TestProject;
  before(async () => {
    api = await startTestApi();
  });
  beforeEach(async () => {
    project = await createSleepingProject(api);
  });
  after(() => api?.close());

  const path = () => `/projects/${project.id}`;
  const branchPath = (id = project.branch_id) => `${path()}/branches/${id}`;
  const create = (query = '', body?: unknown) => api.call('POST', `${branchPath()}/snapshot${query}`, { body });
  const list = async () => (await api.call('GET', `${path()}/snapshots`)).body.snapshots;
  const restore = (id: string, body?: unknown) => api.call('POST', `${path()}/snapshots/${id}/restore`, { body });
  const finalize = (id: string, body?: unknown) => api.call('POST', `${branchPath(id)}/finalize_restore`, { body });
  const branch = async (id: string) => (await api.call('GET', branchPath(id))).body.branch;
  const endpointsOf = async (id: string) =>
    (await api.call('GET', `${branchPath(id)}/endpoints`)).body.endpoints.map((endpoint: Shown) => endpoint.id);
  const made = async (query = '', body?: unknown) => {
    const answer = await create(query, body);
    assert.equal(answer.status, 200, answer.body.message);
    await finishOperations(api, project.id);
    return answer.body.snapshot;
  };
  const restored = async (id: string, body?: unknown) => {
    const answer = await restore(id, body);
    assert.equal(answer.status, 200, answer.body.message);
    await finishOperations(api, project.id);
    return answer.body;
  };

  describe('making one', () => {
    it('takes what is asked for from the query, as clients send it', async () => {
      const expires_at = inSeconds(3600);
      const query = new URLSearchParams({ name: 'before the migration', expires_at });
      const { status, body } = await create(`?${query}`);
      assert.equal(status, 200);
      assert.match(body.snapshot.id, /^snap-[a-z0-9]+-[a-z0-9]+-[a-z0-9]{8}$/);
      assert.equal(body.snapshot.name, 'before the migration');
      assert.equal(body.snapshot.source_branch_id, project.branch_id);
      assert.equal(body.snapshot.manual, true);
      assert.equal(body.snapshot.expires_at, `${expires_at.slice(0, 19)}Z`);
      assert.deepEqual(actions(body), ['create_branch']);
      assert.deepEqual(await list(), [body.snapshot]);
    });

    it('takes it from the body as well, and nothing at all', async () => {
      assert.equal((await create('', { name: 'in the body' })).body.snapshot.name, 'in the body');
      assert.equal((await create('?name=query', { name: 'body' })).body.snapshot.name, 'body');
      const { body } = await create();
      assert.match(body.snapshot.name, /^main at \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/);
      assert.equal('expires_at' in body.snapshot, false);
      assert.equal((await list()).length, 3);
    });

    it('shows no branch of its own, and leaves the source branch as it is', async () => {
      const before = await branch(project.branch_id);
      await made();
      const { body } = await api.call('GET', `${path()}/branches`);
      assert.deepEqual(
        body.branches.map((row: Shown) => row.id),
        [project.branch_id],
      );
      assert.deepEqual(await branch(project.branch_id), before);
    });

    it('is refused of a branch with a parent, of an unready one, and of one that is not there', async () => {
      const child = (await createReadyBranch(api, project)).branch;
      const refused = await api.call('POST', `${branchPath(child.id)}/snapshot`);
      assert.equal(refused.status, 422);
      assert.match(refused.body.message, /^only root branches can have snapshots; .*parent_id:"br-/);
      const { body } = await api.call('POST', '/projects', { body: { project: {} } });
      const unready = await api.call('POST', `/projects/${body.project.id}/branches/${body.branch.id}/snapshot`);
      assert.deepEqual([unready.status, unready.body.message], [422, 'branch not ready yet']);
      assert.equal((await api.call('POST', `${branchPath('br-none-such-12345678')}/snapshot`)).status, 404);
    });

    it('is refused with a time of expiry that is over, and with two points', async () => {
      for (const [query, problem] of [
        [`?expires_at=${inSeconds(-1)}`, /must lie in the future/],
        ['?expires_at=tomorrow', /expires_at/],
        ['?lsn=0/1&timestamp=2026-01-01T00:00:00Z', /field:"lsn", problem:"excludes timestamp"/],
        ['?lsn=nonsense', /must be an LSN/],
        ['?timestamp=2026-01-01', /must be a time with its zone/],
      ] as const) {
        const { status, body } = await create(query);
        assert.equal(status, 400, query);
        assert.match(body.message, problem);
      }
      assert.deepEqual(await list(), []);
    });
  });

  describe('changing one', () => {
    it('renames it, and gives, moves and takes away its expiry', async () => {
      const { id } = await made();
      const patch = async (snapshot: unknown) => api.call('PATCH', `${path()}/snapshots/${id}`, { body: { snapshot } });
      assert.equal((await patch({ name: 'kept' })).body.snapshot.name, 'kept');
      const expires_at = inSeconds(60);
      assert.equal((await patch({ expires_at })).body.snapshot.expires_at, `${expires_at.slice(0, 19)}Z`);
      assert.ok((await patch({ name: 'renamed' })).body.snapshot.expires_at);
      assert.equal((await patch({ expires_at: inSeconds(-60) })).status, 400);
      assert.equal('expires_at' in (await patch({ expires_at: null })).body.snapshot, false);
      assert.equal((await list())[0].name, 'renamed');
    });

    it('deletes it, whether it was made or not; it is gone at once', async () => {
      const { id } = await made();
      const { status, body } = await api.call('DELETE', `${path()}/snapshots/${id}`);
      assert.equal(status, 202);
      assert.deepEqual(actions(body), ['delete_timeline']);
      assert.deepEqual(await list(), []);
      assert.equal((await api.call('DELETE', `${path()}/snapshots/${id}`)).status, 404);
      assert.equal((await restore(id)).status, 404);

      const unmade = (await create()).body;
      await api.call('DELETE', `${path()}/snapshots/${unmade.snapshot.id}`);
      const operation = await api.call('GET', `${path()}/operations/${unmade.operations[0].id}`);
      assert.equal(operation.body.operation.status, 'cancelled');
    });

    it('is for its own project only', async () => {
      const { id } = await made();
      const other = await createSleepingProject(api);
      for (const [method, rest, body] of [
        ['PATCH', '', { snapshot: { name: 'x' } }],
        ['DELETE', '', undefined],
        ['POST', '/restore', undefined],
      ] as const) {
        const answer = await api.call(method, `/projects/${other.id}/snapshots/${id}${rest}`, { body });
        assert.deepEqual([answer.status, answer.body.message], [404, 'snapshot not found']);
      }
    });
  });

  it('stay when their branch is deleted, and are made even if it is deleted before', async () => {
    const other = await restored((await made()).id, { name: 'another root' });
    const kept = await api.call('POST', `${branchPath(other.branch.id)}/snapshot`, { body: { name: 'kept' } });
    assert.equal((await api.call('DELETE', branchPath(other.branch.id))).status, 200);
    const operation = await api.call('GET', `${path()}/operations/${kept.body.operations[0].id}`);
    assert.equal(operation.body.operation.status, 'running');
    await finishOperations(api, project.id);
    assert.ok((await list()).some(({ id }: Shown) => id === kept.body.snapshot.id));
    const again = await restored(kept.body.snapshot.id);
    assert.equal('restored_as' in again.branch, false);
    const replaced = await restore(kept.body.snapshot.id, { finalize_restore: true });
    assert.equal(replaced.status, 400);
    assert.match(replaced.body.message, /target_branch_id/);
    const refused = await finalize(again.branch.id);
    assert.match(refused.body.message, /since the branch that it was to replace is gone/);
  });

  it('go with their project', async () => {
    await made();
    await api.call('DELETE', path());
    const { rows } = await api.store.pool.query(
      `select count(*)::int as left from coppice.snapshots join coppice.timelines on timelines.id = timeline_id
       where snapshots.project_id = $1 and (snapshots.deleted_at is null or timelines.deleted_at is null)`,
      [project.id],
    );
    assert.equal(rows[0].left, 0);
  });

  describe('restoring one', () => {
    it('makes a root branch with an endpoint to look at it, and the roles and passwords as they were', async () => {
      const snapshot = await made('?name=then');
      const roles = `${branchPath()}/roles`;
      await api.call('POST', roles, { body: { role: { name: 'later' } } });
      await api.call('POST', `${roles}/${project.role}/reset_password`);
      await api.call('POST', `${branchPath()}/databases`, {
        body: { database: { name: 'later', owner_name: project.role } },
      });
      await finishOperations(api, project.id);

      const { body } = await restore(snapshot.id);
      assert.equal(body.branch.name, 'then (restored)');
      assert.equal(body.branch.restore_status, 'restored');
      assert.equal(body.branch.restored_from, snapshot.id);
      assert.equal(body.branch.restored_as, project.branch_id);
      assert.equal('parent_id' in body.branch, false);
      assert.equal(body.endpoints.length, 1);
      assert.equal(body.endpoints[0].branch_id, body.branch.id);
      assert.deepEqual(actions(body), ['create_branch', 'start_compute']);
      const there = branchPath(body.branch.id);
      const names = (rows: Shown[]) => rows.map(({ name }) => name);
      assert.deepEqual(names((await api.call('GET', `${there}/roles`)).body.roles), [project.role]);
      assert.deepEqual(names((await api.call('GET', `${there}/databases`)).body.databases), [project.database]);
      const revealed = await api.call('GET', `${there}/roles/${project.role}/reveal_password`);
      assert.equal(revealed.body.password, project.password);
      assert.deepEqual(await endpointsOf(project.branch_id), [project.endpoint_id]);
    });

    it('finds a name that is free, and refuses one that is taken', async () => {
      const { id } = await made('?name=then');
      assert.equal((await restored(id)).branch.name, 'then (restored)');
      assert.equal((await restored(id)).branch.name, 'then (restored 2)');
      assert.equal((await restored(id, { name: 'mine' })).branch.name, 'mine');
      const taken = await restore(id, { name: 'mine' });
      assert.deepEqual([taken.status, taken.body.code], [409, 'BRANCH_ALREADY_EXISTS']);
      const query = await api.call('POST', `${path()}/snapshots/${id}/restore?name=of%20the%20query`);
      assert.equal(query.body.branch.name, 'of the query');
    });

    it('waits until it is made, and says so when it could not be', async () => {
      const { snapshot, operations } = (await create()).body;
      const early = await restore(snapshot.id);
      assert.deepEqual([early.status, early.headers['retry-after'] !== undefined], [423, true]);
      const { store } = api.context;
      await store.updateTable('operations').set({ status: 'failed' }).where('id', '=', operations[0].id).execute();
      const failed = await restore(snapshot.id);
      assert.equal(failed.status, 422);
      assert.match(failed.body.message, /could not be made/);
    });

    it('onto a target that is not there is refused', async () => {
      const { id } = await made();
      const answer = await restore(id, { target_branch_id: 'br-none-such-12345678' });
      assert.deepEqual([answer.status, answer.body.message], [404, 'branch not found']);
    });

    it('at once leaves everything as it is until the branch is ready', async () => {
      const { id } = await made();
      const { body } = await restore(id, { finalize_restore: true, target_branch_id: project.branch_id });
      assert.deepEqual(actions(body), ['create_branch']);
      assert.deepEqual(body.endpoints, []);
      assert.equal(body.branch.restore_status, 'restored');
      assert.deepEqual(await endpointsOf(project.branch_id), [project.endpoint_id]);
      assert.equal((await branch(project.branch_id)).default, true);
    });
  });

  describe('finalizing', () => {
    it('gives the branch its target’s name, settings, schedule, issuer and endpoint; the endpoint for looking goes', async () => {
      const schedule = [{ frequency: 'daily', hour: 3 }];
      await api.call('PUT', `${branchPath()}/backup_schedule`, { body: { schedule } });
      const jwks_url = 'https://issuer.example.test/jwks.json';
      const issuer = { jwks_url, provider_name: 'a', branch_id: project.branch_id, skip_role_creation: true };
      await api.call('POST', `${path()}/jwks`, { body: issuer });
      await api.call('PATCH', branchPath(), { body: { branch: { protected: true } } });
      const { branch: copy, endpoints } = await restored((await made()).id);
      await observeEndpoint(api, project.endpoint_id, 'running');

      const { status, body } = await finalize(copy.id);
      assert.equal(status, 200);
      assert.deepEqual(
        body.operations.map(({ action, endpoint_id, branch_id }: Shown) => [action, endpoint_id, branch_id]),
        [
          ['suspend_compute', endpoints[0].id, copy.id],
          ['apply_config', project.endpoint_id, copy.id],
          ['start_compute', project.endpoint_id, copy.id],
        ],
      );
      const now = await branch(copy.id);
      assert.deepEqual(
        [now.name, now.default, now.protected, now.restore_status, now.restored_as],
        ['main', true, true, 'finalized', project.branch_id],
      );
      const old = await branch(project.branch_id);
      assert.deepEqual([old.name, old.default, old.protected], ['main (old)', false, true]);
      assert.deepEqual(await endpointsOf(copy.id), [project.endpoint_id]);
      assert.deepEqual(await endpointsOf(project.branch_id), []);
      const schedules = async (id: string) => (await api.call('GET', `${branchPath(id)}/backup_schedule`)).body;
      assert.deepEqual(await schedules(copy.id), { schedule });
      assert.deepEqual(await schedules(project.branch_id), { schedule: [] });
      assert.equal((await api.call('GET', `${path()}/jwks`)).body.jwks[0].branch_id, copy.id);
      assert.deepEqual((await finalize(copy.id)).body, { operations: [] });
    });

    it('leaves an endpoint asleep that was asleep, and the one for looking where the target has none', async () => {
      const { id } = await made();
      const first = await restored(id);
      assert.deepEqual(actions((await finalize(first.branch.id)).body).slice(-2), ['apply_config', 'suspend_compute']);
      await finishOperations(api, project.id);
      const second = await restored(id);
      assert.equal(second.branch.restored_as, project.branch_id);
      assert.deepEqual(actions((await finalize(second.branch.id)).body), []);
      assert.deepEqual(await endpointsOf(second.branch.id), [second.endpoints[0].id]);
    });

    it('calls the replaced branch what it is told to, or "(old)" with a number', async () => {
      const { id } = await made();
      const first = await restored(id);
      const taken = await finalize(first.branch.id, { name: 'main' });
      assert.deepEqual([taken.status, taken.body.code], [409, 'BRANCH_ALREADY_EXISTS']);
      await finalize(first.branch.id, { name: 'replaced' });
      assert.equal((await branch(project.branch_id)).name, 'replaced');
      for (const name of ['main (old)', 'main (old 2)']) {
        const current = (await api.call('GET', `${path()}/branches?search=main`)).body.branches.find(
          (row: Shown) => row.name === 'main',
        );
        await finishOperations(api, project.id);
        const next = await restored(id, { target_branch_id: current.id });
        await finalize(next.branch.id);
        assert.equal((await branch(current.id)).name, name);
        assert.equal((await branch(next.branch.id)).name, 'main');
      }
    });

    it('is refused of branches that were not restored, and waits for those that are not ready', async () => {
      const plain = await finalize(project.branch_id);
      assert.equal(plain.status, 422);
      assert.match(plain.body.message, /since the branch was not restored from a snapshot/);
      const { body } = await restore((await made()).id);
      assert.equal((await finalize(body.branch.id)).status, 423);
    });

    it('waits for a target that is being restored to something else', async () => {
      const { branch: copy } = await restored((await made()).id);
      const { branch: other } = await createReadyBranch(api, project, { name: 'other' });
      const begun = await api.call('POST', `${branchPath()}/restore`, {
        body: { source_branch_id: other.id, preserve_under_name: 'before' },
      });
      assert.equal(begun.status, 200, begun.body.message);
      const early = await finalize(copy.id);
      assert.equal(early.status, 423);
      assert.ok(early.headers['retry-after']);
      assert.deepEqual(await endpointsOf(project.branch_id), [project.endpoint_id]);
      await finishOperations(api, project.id);
      assert.equal((await finalize(copy.id)).status, 200);
      assert.deepEqual(await endpointsOf(copy.id), [project.endpoint_id]);
    });
  });

  describe('a schedule', () => {
    const schedulePath = (id?: string) => `${branchPath(id)}/backup_schedule`;
    const put = (schedule: unknown, id?: string) => api.call('PUT', schedulePath(id), { body: { schedule } });

    it('is empty at first, is replaced as a whole, and shows what was set', async () => {
      assert.deepEqual((await api.call('GET', schedulePath())).body, { schedule: [] });
      const schedule = [
        { frequency: 'hourly', retention_seconds: 3600 },
        { frequency: 'weekly', day: 7, hour: 23 },
        { frequency: 'yearly', month: 2, day: 29, hour: 0, retention_seconds: 3_024_000 },
      ];
      const { status, body } = await put(schedule);
      assert.deepEqual([status, body], [200, {}]);
      assert.deepEqual((await api.call('GET', schedulePath())).body, { schedule });
      await put([]);
      assert.deepEqual((await api.call('GET', schedulePath())).body, { schedule: [] });
    });

    it('is refused where it makes no sense', async () => {
      for (const line of [
        { frequency: 'sometimes' },
        { frequency: 'daily', hour: 24 },
        { frequency: 'weekly', day: 8 },
        { frequency: 'monthly', day: 0 },
        { frequency: 'yearly', month: 13 },
        { frequency: 'daily', retention_seconds: 3599 },
        { hour: 3 },
      ]) {
        assert.equal((await put([line])).status, 400, JSON.stringify(line));
      }
      const twice = await put([{ frequency: 'daily' }, { frequency: 'daily', retention_seconds: 7200 }]);
      assert.match(twice.body.message, /field:"schedule.1", problem:"is there twice"/);
      const child = (await createReadyBranch(api, project)).branch;
      const refused = await put([{ frequency: 'daily' }], child.id);
      assert.equal(refused.status, 422);
      assert.match(refused.body.message, /only root branches can have a backup schedule/);
    });
  });
});
