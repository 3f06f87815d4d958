import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { startTestApi, type TestApi } from '../support/api-server.ts';
import {
  createReadyBranch,
  createSleepingProject,
  finishOperations,
  observeEndpoint,
  type TestProject,
} from '../support/project.ts';

interface Shown {
  action: string;
  status: string;
  endpoint_id?: string;
}

describe('restoring a branch', () => {
  let api: TestApi;
  let project: TestProject;
  before(async () => {
    api = await startTestApi();
    project = await createSleepingProject(api);
  });
  after(() => api?.close());

  const path = (id: string) => `/projects/${project.id}/branches/${id}`;
  const branch = async (id: string) => (await api.call('GET', path(id))).body.branch;
  const restore = (id: string, body: Record<string, unknown>) => api.call('POST', `${path(id)}/restore`, { body });
  const child = async (wanted: Record<string, unknown> = {}, endpoints: unknown[] = []) =>
    (await createReadyBranch(api, project, wanted, endpoints)).branch;
  const settle = () => finishOperations(api, project.id);
  const inHours = (hours: number) => new Date(Date.now() + hours * 3_600_000).toISOString();
  const timelineOf = async (id: string) => {
    const row = await api.context.store
      .selectFrom('branches')
      .selectAll()
      .where('id', '=', id)
      .executeTakeFirstOrThrow();
    return row.timeline_id;
  };

  it('from its parent answers with the branch that is being reset, and what is done about it', async () => {
    const made = await createReadyBranch(api, project, { name: 'dev' }, [{ type: 'read_write' }]);
    const { status, body } = await restore(made.branch.id, { source_branch_id: project.branch_id });
    assert.equal(status, 200);
    assert.equal(body.branch.id, made.branch.id);
    assert.equal(body.branch.name, 'dev');
    assert.equal(body.branch.parent_id, project.branch_id);
    assert.deepEqual([body.branch.current_state, body.branch.pending_state], ['resetting', 'ready']);
    assert.ok(Math.abs(Date.parse(body.branch.last_reset_at) - Date.now()) < 60_000);
    assert.deepEqual(
      body.operations.map((row: Shown) => [row.action, row.status, row.endpoint_id]),
      [
        ['create_branch', 'running', undefined],
        ['suspend_compute', 'scheduling', made.endpoints[0].id],
        ['start_compute', 'scheduling', made.endpoints[0].id],
        ['delete_timeline', 'scheduling', undefined],
      ],
    );
    await settle();
    const after = await branch(made.branch.id);
    assert.equal(after.current_state, 'ready');
    assert.equal('pending_state' in after, false);
    const { endpoints } = (await api.call('GET', `${path(made.branch.id)}/endpoints`)).body;
    assert.deepEqual(
      endpoints.map(({ id, host }: { id: string; host: string }) => [id, host]),
      [[made.endpoints[0].id, made.endpoints[0].host]],
    );
  });

  it('lets a sleeping compute sleep on', async () => {
    const made = await createReadyBranch(api, project, {}, [{ type: 'read_write' }]);
    await observeEndpoint(api, made.endpoints[0].id, 'stopped');
    const { body } = await restore(made.branch.id, { source_branch_id: project.branch_id });
    assert.deepEqual(
      body.operations.map(({ action }: Shown) => action),
      ['create_branch', 'delete_timeline'],
    );
    await settle();
  });

  it('under a name to preserve keeps what was as a branch, with its children', async () => {
    const target = await child({ name: 'target' });
    const grandchild = await child({ name: 'grandchild', parent_id: target.id });
    const source = await child({ name: 'source' });
    const before = await timelineOf(target.id);
    const { status, body } = await restore(target.id, {
      source_branch_id: source.id,
      preserve_under_name: 'target_old',
    });
    assert.equal(status, 200);
    assert.equal(body.branch.parent_id, source.id);
    assert.deepEqual(
      body.operations.map(({ action }: Shown) => action),
      ['create_branch'],
    );
    const kept = (await api.call('GET', `/projects/${project.id}/branches?search=target_old`)).body.branches[0];
    assert.equal(kept.parent_id, project.branch_id);
    assert.equal((await branch(grandchild.id)).parent_id, kept.id);
    assert.equal(kept.current_state, 'init', 'it is the target again if the restore fails');
    const early = await api.call('POST', `/projects/${project.id}/branches`, {
      body: { branch: { parent_id: kept.id } },
    });
    assert.equal(early.status, 422);
    assert.equal((await api.call('DELETE', path(kept.id))).status, 422, 'it has a child');
    await settle();
    assert.equal((await branch(kept.id)).current_state, 'ready');
    assert.equal(await timelineOf(kept.id), before);
    const reveal = (id: string) => api.call('GET', `${path(id)}/roles/${project.role}/reveal_password`);
    for (const id of [kept.id, target.id]) assert.equal((await reveal(id)).body.password, project.password);
    // The source cannot go while there is a branch of it.
    assert.match((await api.call('DELETE', path(source.id))).body.message, /has children/);
  });

  it('takes over the roles and databases of the source, but not the passwords of roles that it has itself', async () => {
    const source = await child({ name: 'with-more' });
    await api.call('POST', `${path(source.id)}/roles`, { body: { role: { name: 'more' } } });
    await api.call('POST', `${path(source.id)}/databases`, {
      body: { database: { name: 'more', owner_name: 'more' } },
    });
    await api.call('POST', `${path(source.id)}/roles/${project.role}/reset_password`);
    const target = await child({ name: 'with-less' });
    await api.call('POST', `${path(target.id)}/roles`, { body: { role: { name: 'less' } } });
    await settle();
    const names = async (what: string) =>
      (await api.call('GET', `${path(target.id)}/${what}`)).body[what].map(({ name }: { name: string }) => name).sort();
    const password = async (id: string, role: string) =>
      (await api.call('GET', `${path(id)}/roles/${role}/reveal_password`)).body.password;

    assert.equal((await restore(target.id, { source_branch_id: source.id })).status, 200);
    assert.deepEqual(await names('roles'), ['less', project.role].sort(), 'not before its data are there');
    const late = await api.call('POST', `${path(target.id)}/roles`, { body: { role: { name: 'late' } } });
    assert.equal(late.status, 423);
    await settle();
    assert.deepEqual(await names('roles'), ['more', project.role].sort());
    assert.deepEqual(await names('databases'), ['more', project.database].sort());
    assert.equal(await password(target.id, project.role), project.password);
    assert.equal(await password(target.id, 'more'), await password(source.id, 'more'));
  });

  it('from a protected branch brings no password of it along', async () => {
    const source = await child({ name: 'guarded', protected: true });
    await api.call('POST', `${path(source.id)}/roles`, { body: { role: { name: 'theirs' } } });
    await settle();
    const target = await child({ name: 'unguarded' });
    await restore(target.id, { source_branch_id: source.id });
    await settle();
    const password = async (id: string, role: string) =>
      (await api.call('GET', `${path(id)}/roles/${role}/reveal_password`)).body.password;
    assert.notEqual(await password(target.id, 'theirs'), await password(source.id, 'theirs'));
    assert.equal(await password(target.id, project.role), project.password);
  });

  it('from the parent lets an expiring branch live as long again; from another branch it does not', async () => {
    const other = await child({ name: 'other' });
    const target = await child({ name: 'brief', expires_at: inHours(1) });
    await api.context.store
      .updateTable('branches')
      .set({ expires_at: new Date(Date.now() + 60_000) })
      .where('id', '=', target.id)
      .execute();
    const { expires_at } = await branch(target.id);
    const sideways = (await restore(target.id, { source_branch_id: other.id })).body.branch;
    assert.equal(sideways.expires_at, expires_at);
    await settle();
    const again = (await restore(target.id, { source_branch_id: other.id })).body.branch;
    const left_ms = Date.parse(again.expires_at) - Date.now();
    assert.ok(left_ms > 3_500_000 && left_ms <= 3_600_000, String(left_ms));
    await settle();
  });

  it('is refused on a protected branch, which says so itself', async () => {
    const target = await child({ name: 'safe', protected: true });
    const { status, body } = await restore(target.id, { source_branch_id: project.branch_id });
    assert.equal(status, 422);
    assert.match(body.message, /cannot reset protected branch/);
    assert.ok(
      target.restricted_actions.some(
        ({ name, reason }: { name: string; reason: string }) =>
          name === 'restore' && reason === 'cannot reset protected branch',
      ),
    );
    assert.deepEqual((await branch(project.branch_id)).restricted_actions, []);
  });

  it('is refused without a name to preserve where children need it, and with one that is taken', async () => {
    const target = await child({ name: 'parent' });
    const source = await child({ name: 'other-source' });
    await child({ name: 'its-child', parent_id: target.id });
    const bare = await restore(target.id, { source_branch_id: source.id });
    assert.equal(bare.status, 422);
    assert.match(bare.body.message, /preserve_under_name is required.*its-child/);
    const empty = await restore(target.id, { source_branch_id: source.id, preserve_under_name: '' });
    assert.equal(empty.status, 422);
    const taken = await restore(target.id, { source_branch_id: source.id, preserve_under_name: 'other-source' });
    assert.equal(taken.status, 409);
    assert.equal(taken.body.code, 'BRANCH_ALREADY_EXISTS');
    assert.equal((await branch(target.id)).current_state, 'ready');
  });

  it('is refused for sources that are not there, expire, are not ready, or are the branch itself', async () => {
    const target = await child({ name: 'picky' });
    const elsewhere = await createSleepingProject(api);
    for (const source_branch_id of [elsewhere.branch_id, 'br-not-there-12345678']) {
      assert.equal((await restore(target.id, { source_branch_id })).status, 404);
    }
    const expiring = await child({ name: 'soon-gone', expires_at: inHours(1) });
    assert.equal((await restore(target.id, { source_branch_id: expiring.id })).status, 422);
    const { body } = await api.call('POST', `/projects/${project.id}/branches`, { body: {} });
    assert.match((await restore(target.id, { source_branch_id: body.branch.id })).body.message, /not ready yet/);
    await settle();
    const self = await restore(target.id, { source_branch_id: target.id, preserve_under_name: 'self_old' });
    assert.equal(self.status, 400);
    const past = await restore(target.id, { source_branch_id: target.id, source_lsn: '0/2000000' });
    assert.equal(past.status, 422);
    assert.match(past.body.message, /preserve_under_name is required/);
    const garbled = await restore(target.id, { source_branch_id: project.branch_id, source_timestamp: 'yesterday' });
    assert.equal(garbled.status, 400);
    assert.equal((await restore('br-not-there-12345678', { source_branch_id: target.id })).status, 404);
    assert.equal((await restore(target.id, {})).status, 400);
  });

  it('does not take an LSN and a time at once', async () => {
    const target = await child({ name: 'undecided' });
    const { status, body } = await restore(target.id, {
      source_branch_id: project.branch_id,
      source_lsn: '0/2000000',
      source_timestamp: new Date().toISOString(),
    });
    assert.equal(status, 400);
    assert.match(body.message, /source_lsn/);
  });

  it('is asked to wait while the branch is being restored', async () => {
    const target = await child({ name: 'busy' });
    await restore(target.id, { source_branch_id: project.branch_id });
    assert.equal((await restore(target.id, { source_branch_id: project.branch_id })).status, 423);
    await settle();
    assert.equal((await restore(target.id, { source_branch_id: project.branch_id })).status, 200);
    await settle();
  });

  it('of the default branch from its child puts the preserved state on top', async () => {
    const source = await child({ name: 'better' });
    const { body } = await restore(project.branch_id, {
      source_branch_id: source.id,
      preserve_under_name: 'main_old',
    });
    assert.equal(body.branch.parent_id, source.id);
    assert.equal(body.branch.default, true);
    const kept = await branch((await branch(source.id)).parent_id);
    assert.deepEqual([kept.name, kept.default, 'parent_id' in kept], ['main_old', false, false]);
    await settle();
  });

  it('ends with the deletion of the branch, and leaves no timeline behind', async () => {
    const target = await child({ name: 'doomed' }, [{ type: 'read_write' }]);
    const before = await timelineOf(target.id);
    const source = await child({ name: 'doomed-source' });
    await restore(target.id, { source_branch_id: source.id });
    const { status, body } = await api.call('DELETE', path(target.id));
    assert.equal(status, 200);
    assert.deepEqual(
      body.operations.map(({ action }: Shown) => action),
      ['suspend_compute', 'delete_timeline', 'delete_timeline'],
    );
    const rows = await api.context.store
      .selectFrom('timelines')
      .select(['deleted_at'])
      .where('id', 'in', [before, await timelineOf(target.id)])
      .execute();
    assert.deepEqual(
      rows.map((row) => row.deleted_at !== null),
      [true, true],
    );
    assert.deepEqual(await api.context.store.selectFrom('branch_restores').selectAll().execute(), []);
    await settle();
  });
});
