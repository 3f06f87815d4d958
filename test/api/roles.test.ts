import assert from 'node:assert/strict';
import { after, before, beforeEach, describe, it } from 'node:test';
import { LIMITS } from '../../src/domain/limits.ts';
import { createVerifier, formatVerifier, parseVerifier } from '../../src/domain/scram-verifier.ts';
import { startTestApi, type TestApi } from '../support/api-server.ts';
import { createReadyBranch, createSleepingProject, observeEndpoint, type TestProject } from '../support/project.ts';

const actions = (body: { operations: { action: string }[] }) => body.operations.map(({ action }) => action);

describe('roles', () => {
  let api: TestApi;
  let project: TestProject;
  before(async () => {
    api = await startTestApi();
  });
  after(() => api?.close());
  beforeEach(async () => {
    project = await createSleepingProject(api);
  });

  const roles = (branch_id = project.branch_id) => `/projects/${project.id}/branches/${branch_id}/roles`;
  const create = (role: unknown) => api.call('POST', roles(), { body: { role } });
  const row = (name: string) =>
    api.context.store
      .selectFrom('roles')
      .selectAll()
      .where('branch_id', '=', project.branch_id)
      .where('name', '=', name)
      .executeTakeFirstOrThrow();
  const opens = async (verifier: string | null, password: string) => {
    const { salt, iterations } = parseVerifier(verifier ?? '')!;
    return formatVerifier(await createVerifier(password, { salt, iterations })) === verifier;
  };
  const generation = async () => {
    const { store } = api.context;
    const branch = await store
      .selectFrom('branches')
      .select('config_generation')
      .where('id', '=', project.branch_id)
      .executeTakeFirstOrThrow();
    return branch.config_generation;
  };

  it('listed are those of the customer alone: one in a new project, so that neonctl takes it', async () => {
    const { body } = await api.call('GET', roles());
    assert.deepEqual(
      body.roles.map(({ name }: { name: string }) => name),
      ['neondb_owner'],
    );
    assert.equal('password' in body.roles[0], false);
  });

  describe('creating one', () => {
    it('shows its password once, and keeps a verifier that it opens', async () => {
      const { status, body } = await create({ name: 'casey' });
      assert.equal(status, 201);
      assert.match(body.role.password, /^npg_[A-Za-z0-9]{16}$/);
      assert.equal(body.role.protected, false);
      assert.equal(await opens((await row('casey')).verifier, body.role.password), true);
      const shown = await api.call('GET', `${roles()}/casey`);
      assert.equal(shown.body.role.name, 'casey');
      assert.equal('password' in shown.body.role, false);
    });

    it('wakes a sleeping compute for it, and puts it back to sleep unless it is used', async () => {
      const before = await generation();
      const { body } = await create({ name: 'casey' });
      assert.deepEqual(actions(body), ['apply_config', 'suspend_compute']);
      assert.equal(await generation(), before + 1);
      const suspend = await api.context.store
        .selectFrom('operations')
        .select('arguments')
        .where('id', '=', body.operations[1].id)
        .executeTakeFirstOrThrow();
      assert.deepEqual(suspend.arguments, { only_if_idle: true });
    });

    it('tells a running compute, and leaves it running', async () => {
      await observeEndpoint(api, project.endpoint_id, 'running');
      assert.deepEqual(actions((await create({ name: 'casey' })).body), ['apply_config']);
    });

    it('waits for the next start where there is no compute, or a disabled one', async () => {
      const path = `/projects/${project.id}/endpoints/${project.endpoint_id}`;
      await api.call('PATCH', path, { body: { endpoint: { disabled: true } } });
      const before = await generation();
      assert.deepEqual((await create({ name: 'first' })).body.operations, []);
      await api.call('DELETE', path);
      assert.deepEqual((await create({ name: 'second' })).body.operations, []);
      assert.equal(await generation(), before + 2);
    });

    it('without login gives it no password', async () => {
      const { body } = await create({ name: 'group', no_login: true });
      assert.equal('password' in body.role, false);
      assert.equal(body.role.authentication_method, 'no_login');
      assert.equal((await api.call('GET', `${roles()}/group/reveal_password`)).status, 404);
      assert.equal((await api.call('POST', `${roles()}/group/reset_password`)).status, 422);
    });

    it('refuses a name that is taken, reserved, or no name', async () => {
      await create({ name: 'taken' });
      for (const [name, status] of [
        ['taken', 409],
        ['neondb_owner', 409],
        ['pg_mine', 422],
        ['neon_superuser', 422],
        ['cloud_admin', 422],
        ['zenith_admin', 422],
        ['public', 422],
        ['none', 422],
        ['', 400],
        ['x'.repeat(64), 400],
        ['é'.repeat(32), 400],
        ['a\0b', 400],
      ] as const) {
        assert.equal((await create({ name })).status, status, JSON.stringify(name));
      }
    });

    it('takes any other name, in paths too', async () => {
      for (const name of ['é'.repeat(31), 'with space/and slash', '%41', 'Upper"quoted"', '漢'.repeat(21)]) {
        assert.equal((await create({ name })).status, 201, name);
        const { status, body } = await api.call('GET', `${roles()}/${encodeURIComponent(name)}`);
        assert.deepEqual([status, body.role?.name], [200, name]);
      }
    });

    it('happens once when two ask at once', async () => {
      const answers = await Promise.all([1, 2].map(() => create({ name: 'raced' })));
      assert.deepEqual(answers.map(({ status }) => status).sort(), [201, 409]);
    });

    it('ends at the limit of a branch', async () => {
      const { branch } = await createReadyBranch(api, project);
      const missing = LIMITS.roles_per_branch - 1;
      const many = Array.from({ length: missing }, (_, index) => ({
        branch_id: branch.id,
        name: `r${index}`,
        origin: 'sql' as const,
      }));
      await api.context.store.insertInto('roles').values(many).execute();
      const { status, body } = await api.call('POST', roles(branch.id), { body: { role: { name: 'one-more' } } });
      assert.deepEqual([status, body.code], [422, 'ROLES_LIMIT_EXCEEDED']);
    });
  });

  describe('passwords', () => {
    it('are revealed while they are stored', async () => {
      const { body } = await api.call('GET', `${roles()}/${project.role}/reveal_password`);
      assert.equal(body.password, project.password);
    });

    it('are not stored in the clear', async () => {
      const { sealed_password } = await row(project.role);
      assert.equal(sealed_password?.includes(project.password), false);
    });

    it('are 404 for a role that is unknown or was given one in SQL', async () => {
      assert.equal((await api.call('GET', `${roles()}/nobody/reveal_password`)).status, 404);
      await api.context.store
        .insertInto('roles')
        .values({ branch_id: project.branch_id, name: 'from_sql', origin: 'sql', verifier: 'SCRAM-SHA-256$unknown' })
        .execute();
      const { status, body } = await api.call('GET', `${roles()}/from_sql/reveal_password`);
      assert.deepEqual([status, body.message], [404, 'role has no password to reveal; role_name:"from_sql"']);
    });

    it('are 412 in a project that does not store them, whose roles work all the same', async () => {
      project = await createSleepingProject(api, { store_passwords: false });
      const made = await create({ name: 'casey' });
      assert.equal(await opens((await row('casey')).verifier, made.body.role.password), true);
      assert.equal((await row('casey')).sealed_password, null);
      assert.equal((await api.call('GET', `${roles()}/casey/reveal_password`)).status, 412);
      assert.equal((await api.call('GET', `${roles()}/nobody/reveal_password`)).status, 404);
    });

    it('are reset to a new one, shown in the answer and revealed from then on', async () => {
      const { status, body } = await api.call('POST', `${roles()}/${project.role}/reset_password`);
      assert.equal(status, 200);
      assert.notEqual(body.role.password, project.password);
      assert.deepEqual(actions(body), ['apply_config', 'suspend_compute']);
      assert.equal(
        (await api.call('GET', `${roles()}/${project.role}/reveal_password`)).body.password,
        body.role.password,
      );
      assert.equal(await opens((await row(project.role)).verifier, body.role.password), true);
    });

    it('are not reset for a role that is unknown or of the platform', async () => {
      assert.equal((await api.call('POST', `${roles()}/nobody/reset_password`)).status, 404);
      const { status, body } = await api.call('POST', `${roles()}/cloud_admin/reset_password`);
      assert.deepEqual([status, body.code], [422, 'ROLE_PROTECTED']);
    });

    it('never reach the log', async () => {
      const made = await create({ name: 'casey' });
      const reset = await api.call('POST', `${roles()}/casey/reset_password`);
      const revealed = await api.call('GET', `${roles()}/${project.role}/reveal_password`);
      const log = api.log.join('');
      for (const secret of [made.body.role.password, reset.body.role.password, revealed.body.password]) {
        assert.equal(log.includes(secret), false);
      }
      assert.equal(log.includes('SCRAM-SHA-256'), false);
    });
  });

  describe('deleting one', () => {
    it('is a change for the server; again, it is 204', async () => {
      await create({ name: 'casey' });
      const { status, body } = await api.call('DELETE', `${roles()}/casey`);
      assert.equal(status, 200);
      assert.deepEqual(actions(body), ['apply_config', 'suspend_compute']);
      assert.equal((await api.call('GET', `${roles()}/casey`)).status, 404);
      const before = await generation();
      const again = await api.call('DELETE', `${roles()}/casey`);
      assert.deepEqual([again.status, again.body], [204, undefined]);
      assert.equal(await generation(), before);
    });

    it('is refused while it owns databases, which are named', async () => {
      const { status, body } = await api.call('DELETE', `${roles()}/${project.role}`);
      assert.equal(status, 422);
      assert.match(body.message, /role_name:"neondb_owner", databases:"neondb"/);
    });

    it('of the platform is refused', async () => {
      const { status, body } = await api.call('DELETE', `${roles()}/neon_superuser`);
      assert.deepEqual([status, body.code], [422, 'ROLE_PROTECTED']);
    });

    it('frees its name at once, for a role with another password', async () => {
      const first = await create({ name: 'phoenix' });
      await api.call('DELETE', `${roles()}/phoenix`);
      const second = await create({ name: 'phoenix' });
      assert.equal(second.status, 201);
      assert.notEqual(second.body.role.password, first.body.role.password);
      assert.equal((await row('phoenix')).deleted_at, null);
    });
  });

  it('that wait to be dropped from the parent are dropped from a child too', async () => {
    await create({ name: 'casey' });
    await api.call('DELETE', `${roles()}/casey`);
    const { branch } = await createReadyBranch(api, project);
    const copies = await api.context.store.selectFrom('roles').selectAll().where('branch_id', '=', branch.id).execute();
    assert.deepEqual(copies.map(({ name, deleted_at }) => [name, deleted_at !== null]).sort(), [
      ['casey', true],
      ['neondb_owner', false],
    ]);
    const { body } = await api.call('GET', roles(branch.id));
    assert.equal(body.roles.length, 1);
  });

  it('of an unknown branch are 404', async () => {
    for (const [method, path] of [
      ['GET', ''],
      ['GET', '/neondb_owner'],
      ['DELETE', '/neondb_owner'],
      ['GET', '/neondb_owner/reveal_password'],
      ['POST', '/neondb_owner/reset_password'],
    ] as const) {
      const { status, body } = await api.call(method, `${roles('br-no-such-12345678')}${path}`);
      assert.deepEqual([status, body.message], [404, 'branch not found']);
    }
  });
});
