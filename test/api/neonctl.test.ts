import assert from 'node:assert/strict';
import type { AddressInfo } from 'node:net';
import { after, before, describe, it } from 'node:test';
import { startTestApi, type TestApi } from '../support/api-server.ts';
import { type Neonctl, openNeonctl } from '../support/neonctl.ts';
import { createSleepingProject, finishOperations, type TestProject } from '../support/project.ts';

/** What the public command-line client makes of our answers; it finds its own way through the API. */
describe('neonctl, unmodified', { timeout: 240_000 }, () => {
  let api: TestApi;
  let project: TestProject;
  let client: Neonctl;
  before(async () => {
    api = await startTestApi();
    await api.app.listen({ host: '127.0.0.1', port: 0 });
    const { port } = api.app.server.address() as AddressInfo;
    client = await openNeonctl({ api_port: port, key: api.key });
    project = await createSleepingProject(api);
  });
  after(async () => {
    await api?.close();
    await client?.remove();
  });

  const neonctl = async (...words: string[]) => {
    const printed = await client.run(...words, '--output', 'json');
    return words[0] === 'connection-string' ? printed.trim() : JSON.parse(printed);
  };
  const refusal = (...args: string[]) =>
    neonctl(...args).then(
      () => assert.fail(`neonctl ${args.join(' ')} should have been refused`),
      ({ stderr }: { stderr: string }) => stderr,
    );

  it('says from where clients may come', async () => {
    const added = await neonctl('ip-allow', 'add', '203.0.113.7', '198.51.100.0/24', '--protected-only', 'true');
    assert.deepEqual(added.IP_addresses, ['203.0.113.7', '198.51.100.0/24']);
    const removed = await neonctl('ip-allow', 'remove', '203.0.113.7');
    assert.deepEqual(removed.IP_addresses, ['198.51.100.0/24']);
    assert.match(await refusal('ip-allow', 'add', 'nowhere'), /is not an address, a range/);
    await neonctl('ip-allow', 'reset');
    const { body } = await api.call('GET', `/projects/${project.id}`);
    assert.deepEqual(body.project.settings.allowed_ips.ips, []);
  });

  it('lists, makes, renames, protects and deletes branches, by name or id', async () => {
    const made = await neonctl('branches', 'create', '--name', 'preview/pr-1', '--cu', '0.5-2');
    await finishOperations(api, project.id);
    assert.equal(made.branch.parent_id, project.branch_id);
    assert.equal(made.endpoints[0].autoscaling_limit_max_cu, 2);
    const listed = await neonctl('branches', 'list');
    assert.deepEqual(listed.map(({ name }: { name: string }) => name).sort(), ['main', 'preview/pr-1']);
    await neonctl('branches', 'rename', 'preview/pr-1', 'renamed');
    assert.equal((await neonctl('branches', 'get', made.branch.id)).name, 'renamed');
    const expires_at = new Date(Date.now() + 3_600_000).toISOString();
    assert.ok((await neonctl('branches', 'set-expiration', 'renamed', '--expires-at', expires_at)).expires_at);
    const child = await refusal('branches', 'create', '--parent', 'renamed', '--no-compute');
    assert.match(child, /cannot make a child of a branch that expires/);
    assert.equal((await neonctl('branches', 'delete', 'renamed')).pending_state, 'storage_deleted');
    assert.match(await refusal('branches', 'delete', 'main'), /cannot delete the default branch/);
  });

  it('resets a branch to its parent, and restores one under a name that is kept', async () => {
    const { branch } = await neonctl('branches', 'create', '--name', 'experiment');
    await finishOperations(api, project.id);
    const reset = await neonctl('branches', 'reset', 'experiment', '--parent');
    assert.deepEqual([reset.id, reset.parent_id], [branch.id, project.branch_id]);
    assert.ok(reset.last_reset_at);
    await finishOperations(api, project.id);
    await neonctl('branches', 'create', '--name', 'fixed', '--no-compute');
    await finishOperations(api, project.id);
    await neonctl('branches', 'restore', 'experiment', 'fixed', '--preserve-under-name', 'experiment_old');
    await finishOperations(api, project.id);
    const listed = await neonctl('branches', 'list');
    const named = (name: string) => listed.find((one: { name: string }) => one.name === name);
    assert.equal(named('experiment').parent_id, named('fixed').id);
    assert.equal(named('experiment_old').parent_id, project.branch_id);
    await neonctl('branches', 'restore', 'experiment', '^parent');
    await finishOperations(api, project.id);
    assert.match(await refusal('branches', 'restore', 'experiment', '^self'), /source_lsn or source_timestamp/);
    assert.match(await refusal('branches', 'reset', 'main', '--parent'), /has no parent/);
  });

  it('adds a compute to a branch, and makes another branch the default', async () => {
    const branch = await neonctl('branches', 'create', '--name', 'bare', '--no-compute');
    await finishOperations(api, project.id);
    const { id, host } = await neonctl('branches', 'add-compute', 'bare', '--type', 'read_write').then(
      (answer) => answer.endpoint ?? answer,
    );
    assert.ok(host.startsWith(`${id}.`));
    assert.equal((await neonctl('branches', 'set-default', 'bare')).id, branch.id);
    await neonctl('branches', 'set-default', 'main');
  });

  it('builds a connection string while there is one role, and asks for a role when there are two', async () => {
    const direct = new URL(await neonctl('connection-string', 'main', '--ssl', 'omit'));
    assert.equal(direct.password, project.password);
    assert.equal(direct.hostname, `${project.endpoint_id}.localhost`);
    const pooled = new URL(await neonctl('connection-string', 'main', '--pooled', '--ssl', 'omit'));
    assert.equal(pooled.hostname, `${project.endpoint_id}-pooler.localhost`);
    assert.equal((await neonctl('databases', 'create', '--name', 'shop', '--branch', 'main')).owner_name, project.role);
    await neonctl('roles', 'create', '--name', 'casey', '--branch', 'main');
    assert.match(await refusal('connection-string', 'main'), /Multiple roles found/);
    const named = await neonctl('connection-string', 'main', '--role-name', 'casey', '--database-name', 'shop');
    assert.equal(new URL(named).username, 'casey');
  });

  it('makes, lists and revokes keys of a person, of an organization and of one project', async () => {
    const [{ id: org_id }] = await neonctl('orgs', 'list');
    const personal = await neonctl('api-keys', 'create', '--name', 'mine');
    const organization = await neonctl('api-keys', 'create', '--name', 'ours', '--org-id', org_id);
    const scoped = await neonctl('api-keys', 'create', '--name', 'ci', '--project-id', project.id);
    assert.equal(scoped.project_id, project.id);
    const listed = await neonctl('api-keys', 'list', '--org-id', org_id);
    assert.deepEqual(
      listed.map(({ name, project_id }: { name: string; project_id?: string }) => [name, project_id ?? null]),
      [
        ['ours', null],
        ['ci', project.id],
      ],
    );
    const status = async (key: string) => (await api.call('GET', `/projects/${project.id}`, { key })).status;
    for (const { key } of [personal, organization, scoped]) assert.equal(await status(key), 200);
    await neonctl('api-keys', 'revoke', String(personal.id));
    assert.match(await refusal('api-keys', 'revoke', String(scoped.id)), /--org-id/);
    for (const { id } of [organization, scoped]) await neonctl('api-keys', 'revoke', String(id), '--org-id', org_id);
    for (const { key } of [personal, organization, scoped]) assert.equal(await status(key), 401);
  });

  it('lists and deletes databases and roles', async () => {
    await neonctl('databases', 'create', '--name', 'gone', '--owner-name', project.role, '--branch', 'main');
    const names = (rows: { name: string }[]) => rows.map(({ name }) => name);
    assert.ok(names(await neonctl('databases', 'list', '--branch', 'main')).includes('gone'));
    await neonctl('databases', 'delete', 'gone', '--branch', 'main');
    assert.ok(!names(await neonctl('databases', 'list', '--branch', 'main')).includes('gone'));
    await neonctl('roles', 'create', '--name', 'leaving', '--branch', 'main');
    await neonctl('roles', 'delete', 'leaving', '--branch', 'main');
    assert.ok(!names(await neonctl('roles', 'list', '--branch', 'main')).includes('leaving'));
    assert.match(await refusal('roles', 'delete', project.role, '--branch', 'main'), /owns databases/);
  });

  it('takes, renames, restores, finalizes and deletes snapshots, by name or id, and sets schedules', async () => {
    const expires_at = new Date(Date.now() + 3_600_000).toISOString();
    const taken = await neonctl('snapshots', 'create', '--branch', 'main', '--name', 'v1', '--expires-at', expires_at);
    assert.deepEqual([taken.name, taken.source_branch_id], ['v1', project.branch_id]);
    await finishOperations(api, project.id);
    await neonctl('snapshots', 'update', 'v1', '--name', 'v2', '--clear-expiration');
    assert.equal((await neonctl('snapshots', 'get', 'v2')).id, taken.id);
    assert.match(await refusal('snapshots', 'create', '--branch', 'bare'), /only root branches can have snapshots/);

    const copy = await neonctl('snapshots', 'restore', 'v2', '--name', 'copy');
    await finishOperations(api, project.id);
    assert.equal(copy.restored_branch.name, 'copy');
    await neonctl('snapshots', 'schedule', 'set', '--branch', 'main', '--frequency', 'daily', '--hour', '3');
    await neonctl('snapshots', 'finalize', 'copy', '--name', 'replaced');
    await finishOperations(api, project.id);
    assert.equal((await neonctl('branches', 'get', 'main')).id, copy.restored_branch.id);
    assert.equal((await neonctl('branches', 'get', 'replaced')).id, project.branch_id);
    assert.deepEqual(await neonctl('snapshots', 'schedule', 'get', '--branch', 'main'), [
      { frequency: 'daily', hour: 3 },
    ]);
    await neonctl('snapshots', 'delete', 'v2');
    assert.deepEqual(await neonctl('snapshots', 'list'), []);
  });
});
