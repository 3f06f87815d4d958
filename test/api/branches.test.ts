import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { startTestApi, type TestApi } from '../support/api-server.ts';
import { createReadyBranch, createSleepingProject, finishOperations, type TestProject } from '../support/project.ts';

const DAY_MS = 86_400_000;

interface Shown {
  id: string;
  name: string;
  action: string;
  status: string;
  endpoint_id?: string;
  default: boolean;
}

describe('branches', () => {
  let api: TestApi;
  let project: TestProject;
  before(async () => {
    api = await startTestApi();
    project = await createSleepingProject(api);
  });
  after(() => api?.close());

  const branches = () => `/projects/${project.id}/branches`;
  const create = (body?: unknown) => api.call('POST', branches(), { body });
  const patch = (id: string, branch: unknown) => api.call('PATCH', `${branches()}/${id}`, { body: { branch } });
  const inDays = (days: number) => new Date(Date.now() + days * DAY_MS).toISOString();

  describe('creating one', () => {
    it('without a body makes a child of the default branch, named like its id, without a compute', async () => {
      const { status, body } = await create();
      assert.equal(status, 201);
      assert.match(body.branch.id, /^br-[a-z0-9]+-[a-z0-9]+-[a-z0-9]{8}$/);
      assert.equal(body.branch.name, body.branch.id);
      assert.equal(body.branch.parent_id, project.branch_id);
      assert.equal(body.branch.current_state, 'init');
      assert.equal(body.branch.pending_state, 'ready');
      assert.equal(body.branch.init_source, 'parent-data');
      assert.deepEqual(body.endpoints, []);
      assert.equal('connection_uris' in body, false);
      assert.deepEqual(
        body.operations.map(({ action, status }: Shown) => [action, status]),
        [['create_branch', 'running']],
      );
      assert.equal('endpoint_id' in body.operations[0], false);
    });

    it('has an id that neonctl takes for an id: three groups after br-', async () => {
      const { body } = await create({});
      assert.equal(body.branch.id.split('-').length, 4);
      assert.match(body.branch.id, /^br(-[a-z0-9]+){3}$/);
    });

    it('with an endpoint, as neonctl asks for it, starts it and tells how to connect', async () => {
      const { status, body } = await create({
        branch: { name: 'preview/pr-1', parent_id: project.branch_id },
        endpoints: [{ type: 'read_write', autoscaling_limit_min_cu: 0.5, autoscaling_limit_max_cu: 2 }],
        annotation_value: {},
      });
      assert.equal(status, 201);
      const [endpoint] = body.endpoints;
      assert.equal(endpoint.current_state, 'init');
      assert.equal(endpoint.pending_state, 'active');
      assert.deepEqual(
        body.operations.map((row: Shown) => [row.action, row.status, row.endpoint_id]),
        [
          ['create_branch', 'running', undefined],
          ['start_compute', 'scheduling', endpoint.id],
        ],
      );
      const [connection] = body.connection_uris;
      assert.equal(connection.connection_parameters.password, project.password);
      assert.equal(connection.connection_parameters.host, endpoint.host);
      assert.ok(connection.connection_uri.includes(`@${connection.connection_parameters.host}/`));
    });

    it('copies roles and databases, the passwords not shown but the same', async () => {
      const { body } = await create({ branch: { name: 'copy' } });
      assert.deepEqual(
        body.roles.map((role: { name: string; branch_id: string }) => [role.name, role.branch_id]),
        [[project.role, body.branch.id]],
      );
      assert.equal('password' in body.roles[0], false);
      assert.equal(body.databases[0].owner_name, project.role);
      const reveal = `${branches()}/${body.branch.id}/roles/${project.role}/reveal_password`;
      assert.equal((await api.call('GET', reveal)).body.password, project.password);
    });

    it('of a protected parent gives the copied roles new passwords', async () => {
      const parent = await createReadyBranch(api, project, { name: 'guarded', protected: true });
      const { body } = await create({
        branch: { parent_id: parent.branch.id },
        endpoints: [{ type: 'read_write' }],
      });
      const { password } = body.connection_uris[0].connection_parameters;
      assert.notEqual(password, project.password);
      const reveal = `${branches()}/${body.branch.id}/roles/${project.role}/reveal_password`;
      assert.equal((await api.call('GET', reveal)).body.password, password);
    });

    it('leaves connection strings out when the parent has two roles', async () => {
      const parent = await createReadyBranch(api, project, { name: 'two-roles' });
      await api.call('POST', `${branches()}/${parent.branch.id}/roles`, { body: { role: { name: 'second' } } });
      const { body } = await create({ branch: { parent_id: parent.branch.id }, endpoints: [{ type: 'read_write' }] });
      assert.equal(body.roles.length, 2);
      assert.equal('connection_uris' in body, false);
    });

    it('takes an empty parent for the default branch', async () => {
      const { body } = await create({ branch: { parent_id: '' } });
      assert.equal(body.branch.parent_id, project.branch_id);
    });

    it('refuses a name that is taken, with the code that clients know', async () => {
      await create({ branch: { name: 'taken' } });
      const { status, body } = await create({ branch: { name: 'taken' } });
      assert.equal(status, 409);
      assert.equal(body.code, 'BRANCH_ALREADY_EXISTS');
      assert.equal(body.message, 'branch already exists; branch_name:"taken"');
    });

    it('gives a name to one of two who ask for it at once', async () => {
      const answers = await Promise.all([1, 2].map(() => create({ branch: { name: 'raced' } })));
      assert.deepEqual(answers.map(({ status }) => status).sort(), [201, 409]);
    });

    it('refuses a parent that is not ready, unknown, or of another project', async () => {
      const young = await create({ branch: { name: 'young' } });
      const early = await create({ branch: { parent_id: young.body.branch.id } });
      assert.equal(early.status, 422);
      assert.equal(early.body.message, 'branch not ready yet');
      const other = await createSleepingProject(api);
      for (const parent_id of ['br-no-such-12345678', other.branch_id]) {
        const { status, body } = await create({ branch: { parent_id } });
        assert.deepEqual([status, body.message], [404, 'branch not found']);
      }
    });

    it('refuses what this version cannot do instead of making another branch', async () => {
      const { status, body } = await create({ branch: { init_source: 'import' } });
      assert.equal(status, 501);
      assert.match(body.message, /import.* is not available/);
      const two = await create({ endpoints: [{ type: 'read_write' }, { type: 'read_write' }] });
      assert.equal(two.status, 400);
      const unreachable = await create({ branch: { init_source: 'schema-only' } });
      assert.deepEqual([unreachable.status, /one read_write endpoint/.test(unreachable.body.message)], [400, true]);
    });

    it('refuses a size that does not exist and leaves nothing behind', async () => {
      const { status, body } = await create({
        branch: { name: 'odd-size' },
        endpoints: [{ type: 'read_write', autoscaling_limit_min_cu: 0.3, autoscaling_limit_max_cu: 0.3 }],
      });
      assert.equal(status, 400);
      assert.match(body.message, /0\.3 CU/);
      assert.equal((await api.call('GET', `${branches()}/count?search=odd-size`)).body.count, 0);
    });

    it('refuses a new branch while the pool is down to its reserve', async () => {
      const pool = {
        name: 'default',
        driver: 'copy',
        path: '/pool',
        total_bytes: 100,
        free_bytes: 5,
        reserve_bytes: 10,
      };
      await api.context.store.insertInto('storage_pools').values(pool).execute();
      try {
        const { status, body } = await create({});
        assert.equal(status, 422);
        assert.match(body.message, /5 bytes free, 10 kept in reserve/);
      } finally {
        await api.context.store.deleteFrom('storage_pools').execute();
      }
    });

    it('keeps annotations, 50 at most', async () => {
      const { body } = await create({ branch: { name: 'noted' }, annotation_value: { pr: '7' } });
      const shown = await api.call('GET', `${branches()}/${body.branch.id}`);
      assert.deepEqual(shown.body.annotation.value, { pr: '7' });
      const list = await api.call('GET', branches());
      assert.deepEqual(list.body.annotations[body.branch.id].object, { type: 'console/branch', id: body.branch.id });
      const many = Object.fromEntries(Array.from({ length: 51 }, (_, index) => [`k${index}`, 'v']));
      assert.equal((await create({ annotation_value: many })).status, 400);
    });
  });

  describe('an expiry', () => {
    it('is kept to the second, with the time it grants', async () => {
      const expires_at = new Date(Math.ceil(Date.now() / 1000) * 1000 + DAY_MS);
      const { body } = await create({ branch: { name: 'short', expires_at: expires_at.toISOString() } });
      assert.equal(body.branch.expires_at, `${expires_at.toISOString().slice(0, 19)}Z`);
      const { ttl_interval_seconds } = body.branch;
      assert.ok(ttl_interval_seconds > 86_340 && ttl_interval_seconds <= 86_401, String(ttl_interval_seconds));
      const without = await patch(body.branch.id, { expires_at: null });
      assert.equal('expires_at' in without.body.branch, false);
      assert.equal('ttl_interval_seconds' in without.body.branch, false);
    });

    it('lies ahead, by 30 days at most', async () => {
      for (const expires_at of [inDays(-1), inDays(31), 'tomorrow']) {
        assert.equal((await create({ branch: { expires_at } })).status, 400, expires_at);
      }
    });

    it('does not go with protection, with being the default, with children', async () => {
      const parent = await createReadyBranch(api, project, { name: 'with-child' });
      await create({ branch: { name: 'its-child', parent_id: parent.branch.id } });
      assert.equal((await create({ branch: { protected: true, expires_at: inDays(1) } })).status, 422);
      for (const id of [project.branch_id, parent.branch.id]) {
        const { status, body } = await patch(id, { expires_at: inDays(1) });
        assert.equal(status, 422);
        assert.match(body.message, /branch cannot expire, since it (is the default branch|has children)/);
      }
      const expiring = (await createReadyBranch(api, project, { name: 'expiring', expires_at: inDays(1) })).branch.id;
      assert.equal((await patch(expiring, { protected: true })).status, 422);
      assert.equal((await api.call('POST', `${branches()}/${expiring}/set_as_default`)).status, 422);
      assert.equal((await create({ branch: { parent_id: expiring } })).status, 422);
      assert.equal((await patch(expiring, { protected: true, expires_at: null })).body.branch.protected, true);
    });
  });

  describe('listing them', () => {
    let listed: TestProject;
    before(async () => {
      listed = await createSleepingProject(api);
      for (const name of ['alpha', 'Beta', 'gamma', '50%_off']) await createReadyBranch(api, listed, { name });
    });
    const list = (query: string) => api.call('GET', `/projects/${listed.id}/branches?${query}`);
    const names = (body: { branches: Shown[] }) => body.branches.map(({ name }) => name);

    it('gives all of them without a limit, the last changed first, with annotations for neonctl', async () => {
      const { body } = await list('');
      assert.deepEqual(names(body), ['50%_off', 'gamma', 'Beta', 'alpha', 'main']);
      assert.deepEqual(body.annotations, {});
      assert.deepEqual(body.pagination, { sort_by: 'updated_at', sort_order: 'desc' });
    });

    for (const sort_by of ['name', 'created_at', 'updated_at']) {
      for (const sort_order of ['asc', 'desc']) {
        it(`walks full pages by ${sort_by} ${sort_order} to an end without a next`, async () => {
          const sort = `sort_by=${sort_by}&sort_order=${sort_order}`;
          const all = names((await list(sort)).body);
          const walked: string[] = [];
          let cursor: string | undefined;
          for (let page = 0; page < 3; page++) {
            const { body } = await list(`${sort}&limit=2${cursor ? `&cursor=${cursor}` : ''}`);
            walked.push(...names(body));
            cursor = body.pagination.next;
            assert.equal(cursor === undefined, page === 2);
          }
          assert.deepEqual(walked, all);
          assert.equal(new Set(walked).size, 5);
        });
      }
    }

    it('ends without a next when the last page is exactly full', async () => {
      const { body } = await list('limit=5');
      assert.equal(body.branches.length, 5);
      assert.equal('next' in body.pagination, false);
    });

    it('finds part of a name or an id, taking signs literally and case lightly', async () => {
      assert.deepEqual(names((await list('search=bet')).body), ['Beta']);
      assert.deepEqual(names((await list(`search=${encodeURIComponent('50%_')}`)).body), ['50%_off']);
      assert.deepEqual(names((await list('search=%25')).body), ['50%_off']);
      for (const id of [listed.branch_id.slice(3), listed.branch_id.toUpperCase()]) {
        assert.deepEqual(names((await list(`search=${id}`)).body), ['main']);
      }
      assert.deepEqual(names((await list('search=GAMM&limit=1')).body), ['gamma']);
      assert.equal((await api.call('GET', `/projects/${listed.id}/branches/count?search=a`)).body.count >= 4, true);
      assert.equal((await api.call('GET', `/projects/${listed.id}/branches/count`)).body.count, 5);
    });

    it('refuses a cursor of another list, and what is none', async () => {
      const { body } = await list('limit=1&sort_by=name');
      assert.equal((await list(`cursor=${body.pagination.next}&sort_by=created_at`)).status, 400);
      assert.equal((await list(`cursor=${body.pagination.next}&limit=1`)).status, 200);
      const forged = Buffer.from('["updated_at","; drop table","x"]').toString('base64url');
      for (const cursor of ['nonsense', forged]) assert.equal((await list(`cursor=${cursor}`)).status, 400);
      for (const limit of [0, 10_001, 'many']) assert.equal((await list(`limit=${limit}`)).status, 400);
    });

    it('shows nothing of another project', async () => {
      const { status } = await api.call('GET', `/projects/${listed.id}/branches/${project.branch_id}`);
      assert.equal(status, 404);
    });

    it('is the same again when nothing changed', async () => {
      assert.deepEqual((await list('')).body, (await list('')).body);
    });
  });

  describe('changing one', () => {
    it('renames it, without operations', async () => {
      const { branch } = await createReadyBranch(api, project, { name: 'before' });
      const { status, body } = await patch(branch.id, { name: 'after' });
      assert.equal(status, 200);
      assert.equal(body.branch.name, 'after');
      assert.deepEqual(body.operations, []);
      assert.equal((await patch(branch.id, { name: 'main' })).status, 409);
      assert.equal((await patch(branch.id, { name: 'after' })).status, 200);
      assert.equal((await patch(branch.id, { name: '' })).status, 400);
      assert.equal((await patch('br-no-such-12345678', { name: 'x' })).status, 404);
    });

    it('makes another the default, and only that', async () => {
      const own = await createSleepingProject(api);
      const { branch } = await createReadyBranch(api, own, { name: 'next' });
      const path = `/projects/${own.id}/branches`;
      for (let again = 0; again < 2; again++) {
        const { status, body } = await api.call('POST', `${path}/${branch.id}/set_as_default`);
        assert.equal(status, 200);
        assert.equal(body.branch.default, true);
        assert.equal(body.branch.primary, true);
        assert.deepEqual(body.operations, []);
      }
      const { body } = await api.call('GET', path);
      assert.deepEqual(
        body.branches.filter((row: Shown) => row.default).map((row: Shown) => row.id),
        [branch.id],
      );
    });

    it('keeps one default when two are asked for at once', async () => {
      const own = await createSleepingProject(api);
      const made = [];
      for (const name of ['a', 'b', 'c']) made.push((await createReadyBranch(api, own, { name })).branch.id);
      const path = `/projects/${own.id}/branches`;
      const answers = await Promise.all(made.map((id) => api.call('POST', `${path}/${id}/set_as_default`)));
      assert.deepEqual(
        answers.map(({ status }) => status),
        [200, 200, 200],
      );
      const { body } = await api.call('GET', path);
      assert.equal(body.branches.filter((row: Shown) => row.default).length, 1);
    });
  });

  describe('deleting one', () => {
    it('stops its compute, then deletes its timeline, and frees its name', async () => {
      const made = await createReadyBranch(api, project, { name: 'doomed' }, [{ type: 'read_write' }]);
      const { status, body } = await api.call('DELETE', `${branches()}/${made.branch.id}`);
      assert.equal(status, 200);
      assert.equal(body.branch.pending_state, 'storage_deleted');
      assert.deepEqual(
        body.operations.map((row: Shown) => [row.action, row.status]),
        [
          ['suspend_compute', 'running'],
          ['delete_timeline', 'scheduling'],
        ],
      );
      assert.equal((await api.call('GET', `${branches()}/${made.branch.id}`)).status, 404);
      assert.equal((await api.call('GET', `/projects/${project.id}/endpoints/${made.endpoints[0].id}`)).status, 404);
      assert.equal((await create({ branch: { name: 'doomed' } })).status, 201);
    });

    it('that is asked for again, or of one that never was, is 204 without a body', async () => {
      const { branch } = await createReadyBranch(api, project, { name: 'twice' });
      assert.equal((await api.call('DELETE', `${branches()}/${branch.id}`)).status, 200);
      for (const id of [branch.id, 'br-no-such-12345678']) {
        const { status, body } = await api.call('DELETE', `${branches()}/${id}`);
        assert.deepEqual([status, body], [204, undefined]);
      }
    });

    it('cancels what had not begun on it', async () => {
      const { body } = await create({ branch: { name: 'hasty' }, endpoints: [{ type: 'read_write' }] });
      const deleted = await api.call('DELETE', `${branches()}/${body.branch.id}`);
      assert.equal(deleted.status, 200);
      for (const { id } of body.operations) {
        const { operation } = (await api.call('GET', `/projects/${project.id}/operations/${id}`)).body;
        assert.equal(operation.status, 'cancelled');
      }
      assert.equal(deleted.body.operations.at(-1).action, 'delete_timeline');
    });

    it('is refused for a parent, naming its children by id and name', async () => {
      const parent = await createReadyBranch(api, project, { name: 'parent' });
      const child = await createReadyBranch(api, project, { name: 'child', parent_id: parent.branch.id });
      const { status, body } = await api.call('DELETE', `${branches()}/${parent.branch.id}`);
      assert.equal(status, 422);
      assert.equal(body.message, `cannot delete branch that has children: ${child.branch.id} (child)`);
      await api.call('DELETE', `${branches()}/${child.branch.id}`);
      assert.equal((await api.call('DELETE', `${branches()}/${parent.branch.id}`)).status, 200);
    });

    it('is refused for a protected branch and for the default one', async () => {
      const { branch } = await createReadyBranch(api, project, { name: 'kept', protected: true });
      const kept = await api.call('DELETE', `${branches()}/${branch.id}`);
      assert.deepEqual([kept.status, kept.body.message], [422, 'cannot delete protected branch']);
      const own = await createSleepingProject(api);
      const main = await api.call('DELETE', `/projects/${own.id}/branches/${own.branch_id}`);
      assert.deepEqual([main.status, main.body.message], [422, 'cannot delete the default branch']);
    });

    it('does not touch a branch of another project', async () => {
      const other = await createSleepingProject(api);
      const { branch } = await createReadyBranch(api, other, { name: 'theirs' });
      assert.equal((await api.call('DELETE', `${branches()}/${branch.id}`)).status, 204);
      assert.equal((await api.call('GET', `/projects/${other.id}/branches/${branch.id}`)).status, 200);
    });
  });

  it('that is ready shows where it began', async () => {
    const { branch } = await createReadyBranch(api, project, { name: 'measured' });
    const { store } = api.context;
    const point = { parent_lsn: '0/1DE2850', parent_timestamp: new Date('2026-11-01T10:00:00Z') };
    await store.updateTable('branches').set(point).where('id', '=', branch.id).execute();
    const { body } = await api.call('GET', `${branches()}/${branch.id}`);
    assert.equal(body.branch.current_state, 'ready');
    assert.equal('pending_state' in body.branch, false);
    assert.equal(body.branch.parent_lsn, '0/1DE2850');
    assert.equal(body.branch.parent_timestamp, '2026-11-01T10:00:00Z');
    await finishOperations(api, project.id);
  });

  it('lists the endpoints of one branch only', async () => {
    const made = await createReadyBranch(api, project, { name: 'with-compute' }, [{ type: 'read_write' }]);
    const { body } = await api.call('GET', `${branches()}/${made.branch.id}/endpoints`);
    assert.deepEqual(
      body.endpoints.map((row: Shown) => row.id),
      [made.endpoints[0].id],
    );
    assert.equal((await api.call('GET', `${branches()}/br-no-such-12345678/endpoints`)).status, 404);
  });
});
