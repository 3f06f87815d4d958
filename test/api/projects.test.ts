import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { startTestApi, type TestApi } from '../support/api-server.ts';

describe('projects', () => {
  let api: TestApi;
  before(async () => {
    api = await startTestApi({ installation: { uid_base: 70_000 } });
  });
  after(() => api?.close());

  const create = async (project: object = {}) => {
    const { status, body } = await api.call('POST', '/projects', { body: { project } });
    assert.equal(status, 201, JSON.stringify(body));
    return body;
  };

  it('come with a branch, a role, a database, a starting endpoint and one connection string', async () => {
    const created = await create({});
    const { project, branch, roles, databases, endpoints, operations, connection_uris } = created;
    assert.equal(project.name, project.id);
    assert.equal(project.pg_version, 17);
    assert.equal(project.history_retention_seconds, 86_400);
    assert.deepEqual(
      [branch.name, branch.default, branch.current_state, branch.pending_state],
      ['main', true, 'init', 'ready'],
    );
    assert.deepEqual([roles.length, roles[0].name], [1, 'neondb_owner']);
    assert.deepEqual([databases.length, databases[0].name, databases[0].owner_name], [1, 'neondb', 'neondb_owner']);
    assert.deepEqual(
      [endpoints[0].type, endpoints[0].current_state, endpoints[0].pending_state],
      ['read_write', 'init', 'active'],
    );
    assert.deepEqual(
      operations.map((one: { action: string; status: string; endpoint_id?: string }) => [
        one.action,
        one.status,
        one.endpoint_id,
      ]),
      [
        ['create_timeline', 'running', undefined],
        ['start_compute', 'scheduling', endpoints[0].id],
      ],
    );
    assert.equal(connection_uris.length, 1);
    const { connection_uri, connection_parameters } = connection_uris[0];
    assert.equal(connection_parameters.password, roles[0].password);
    assert.ok(connection_uri.includes(connection_parameters.host));
    assert.equal(
      connection_uri,
      `postgresql://neondb_owner:${roles[0].password}@${endpoints[0].id}.localhost/neondb?options=endpoint%3D${endpoints[0].id}`,
    );
    assert.equal(endpoints[0].host, `${endpoints[0].id}.localhost`);
  });

  it('take the names, sizes and settings that were asked for', async () => {
    const { project, branch, roles, databases, endpoints } = await create({
      name: 'Ladenkasse "Nord" 🌲',
      pg_version: 18,
      history_retention_seconds: 0,
      store_passwords: false,
      default_endpoint_settings: {
        autoscaling_limit_min_cu: 0.5,
        autoscaling_limit_max_cu: 2,
        suspend_timeout_seconds: 600,
        pg_settings: { work_mem: '8MB' },
      },
      branch: { name: 'produktion', role_name: 'kasse', database_name: 'laden', annotations: { team: 'nord' } },
    });
    assert.equal(project.name, 'Ladenkasse "Nord" 🌲');
    assert.equal(project.pg_version, 18);
    assert.equal(project.history_retention_seconds, 0);
    assert.equal(project.store_passwords, false);
    assert.equal(branch.name, 'produktion');
    assert.equal(roles[0].name, 'kasse');
    assert.deepEqual([databases[0].name, databases[0].owner_name], ['laden', 'kasse']);
    const [endpoint] = endpoints;
    assert.deepEqual(
      [endpoint.autoscaling_limit_min_cu, endpoint.autoscaling_limit_max_cu, endpoint.suspend_timeout_seconds],
      [0.5, 2, 600],
    );
    assert.deepEqual(endpoint.settings.pg_settings, { work_mem: '8MB' });
  });

  it('keep a password only sealed, and not at all where it is not to be stored', async () => {
    const stored = await create({});
    const unstored = await create({ store_passwords: false });
    const sealed = async (created: { branch: { id: string } }) => {
      const query = 'select sealed_password, row_to_json(r)::text as text from coppice.roles r where branch_id = $1';
      return (await api.store.pool.query(query, [created.branch.id])).rows[0];
    };
    assert.ok((await sealed(stored)).sealed_password instanceof Buffer);
    assert.equal((await sealed(stored)).text.includes(stored.roles[0].password), false);
    assert.equal((await sealed(unstored)).sealed_password, null);
    assert.equal(
      api.log.some((line) => line.includes(stored.roles[0].password)),
      false,
    );
  });

  it('are refused with a reason', async () => {
    const refused: [project: object, status: number, message: RegExp][] = [
      [{ pg_version: 14 }, 400, /pg_version:"14", available:"16, 17, 18"/],
      [{ region_id: 'aws-us-east-2' }, 400, /unknown region.*available:"local"/],
      [{ org_id: 'org-other-place-12345678' }, 404, /organization not found/],
      [{ history_retention_seconds: 2_592_001 }, 400, /exceeds allowed maximum.*max:"2592000"/],
      [{ autoscaling_limit_min_cu: 0.3 }, 400, /0\.3 CU is not a compute size/],
      [{ default_endpoint_settings: { autoscaling_limit_min_cu: 1, autoscaling_limit_max_cu: 10 } }, 400, /8 CU/],
      [{ default_endpoint_settings: { suspend_timeout_seconds: 5 } }, 400, /from 60 to/],
      [{ default_endpoint_settings: { pg_settings: { shared_preload_libraries: 'x' } } }, 400, /shared_preload/],
      [{ branch: { role_name: 'pg_admin' } }, 422, /role name is reserved/],
      [{ branch: { role_name: 'cloud_admin' } }, 422, /role name is reserved/],
      [{ branch: { database_name: 'template1' } }, 422, /database name is reserved/],
      [{ branch: { database_name: 'x'.repeat(60) } }, 400, /role_name.*at most 63 bytes/],
      [{ settings: { allowed_ips: { ips: ['10.0.0.0/8', '10.0.0.1/33'] } } }, 400, /allowed_ips.*10\.0\.0\.1\/33/],
      [{ settings: { allowed_ips: { ips: ['10.0.0.9-10.0.0.1'] } } }, 400, /allowed_ips.*is not an address/],
      [{ settings: { allowed_ips: { ips: ['example.com'] } } }, 400, /allowed_ips.*is not an address/],
      [{ settings: { allowed_ips: { ips: Array(1001).fill('10.0.0.1') } } }, 400, /allowed_ips.*more than 1000/],
      [{ settings: { block_vpc_connections: true } }, 501, /not available/],
      [{ settings: { quota: { active_time_seconds: -1 } } }, 400, /quota.active_time_seconds/],
    ];
    for (const [project, status, message] of refused) {
      const answer = await api.call('POST', '/projects', { body: { project } });
      assert.equal(answer.status, status, JSON.stringify({ project, answer: answer.body }));
      assert.match(answer.body.message, message);
    }
  });

  it('get the smallest uid that is free, however many are made at once', async () => {
    const uids = async () =>
      (await api.store.pool.query('select uid from coppice.projects where purged_at is null order by uid')).rows.map(
        (row) => row.uid,
      );
    await Promise.all(Array.from({ length: 8 }, () => create({})));
    const taken = await uids();
    assert.deepEqual(
      taken,
      taken.map((_, index) => 70_000 + index),
    );
    await api.store.pool.query('update coppice.projects set purged_at = now() where uid = 70002');
    await create({});
    assert.deepEqual(await uids(), taken);
  });

  it('are refused while the storage pool is down to its reserve', async () => {
    await api.store.pool.query(
      `insert into coppice.storage_pools (name, driver, path, total_bytes, free_bytes, reserve_bytes)
       values ('main', 'reflink', '/pool', 100, 9, 10)`,
    );
    const { status, body } = await api.call('POST', '/projects', { body: { project: {} } });
    await api.store.pool.query('delete from coppice.storage_pools');
    assert.equal(status, 422);
    assert.match(body.message, /too full for a new project: 9 bytes free, 10 kept/);
  });

  it('are found by id, name and page', async () => {
    const names = Array.from({ length: 7 }, (_, index) => `seiten_${index}%`);
    for (const name of names) await create({ name });
    const seen: string[] = [];
    let cursor: string | undefined;
    for (;;) {
      const page = await api.call('GET', `/projects?limit=3&search=SEITEN_${cursor ? `&cursor=${cursor}` : ''}`);
      if (page.body.projects.length === 0) break;
      seen.push(...page.body.projects.map((project: { name: string }) => project.name));
      cursor = page.body.pagination.cursor;
    }
    assert.deepEqual(seen, names.toReversed());
    const literal = await api.call('GET', `/projects?search=${encodeURIComponent('_3%')}`);
    assert.deepEqual(
      literal.body.projects.map((project: { name: string }) => project.name),
      ['seiten_3%'],
    );
    const [{ id }] = literal.body.projects;
    assert.equal((await api.call('GET', `/projects/${id}`)).body.project.name, 'seiten_3%');
    assert.equal((await api.call('GET', '/projects?recoverable=true')).body.projects.length, 0);
    assert.equal((await api.call('GET', '/projects')).body.projects.length, 10);
    assert.deepEqual((await api.call('GET', '/projects/shared?limit=100')).body.projects, []);
  });

  it('change only in what is sent', async () => {
    const { project } = await create({ name: 'before', settings: { maintenance_window: window('01:00') } });
    const patch = (changes: object) => api.call('PATCH', `/projects/${project.id}`, { body: { project: changes } });
    const renamed = await patch({ name: 'after' });
    assert.equal(renamed.body.project.name, 'after');
    assert.deepEqual(renamed.body.operations, []);
    assert.deepEqual(renamed.body.project.settings.maintenance_window, window('01:00'));
    const longer = await patch({ history_retention_seconds: 3600 });
    assert.deepEqual(actions(longer.body), [['apply_storage_config', 'running', undefined]]);
    assert.equal(longer.body.project.name, 'after');
    const sized = await patch({ default_endpoint_settings: { autoscaling_limit_max_cu: 4 } });
    assert.equal(sized.body.project.default_endpoint_settings.autoscaling_limit_min_cu, 0.25);
    assert.equal(sized.body.project.default_endpoint_settings.autoscaling_limit_max_cu, 4);
    assert.equal(sized.body.project.default_endpoint_settings.suspend_timeout_seconds, 0);
    const moved = await patch({ settings: { maintenance_window: window('02:00') } });
    assert.deepEqual(moved.body.project.settings.maintenance_window, window('02:00'));
    assert.equal((await patch({ history_retention_seconds: 2_592_001 })).status, 400);
    assert.equal((await patch({ default_endpoint_settings: { autoscaling_limit_min_cu: 60 } })).status, 400);
  });

  it('say from where clients may come; the list that is sent replaces the one before', async () => {
    const ips = ['203.0.113.7', '203.0.113.16-203.0.113.31', '198.51.100.0/24', '2001:db8::/32', '::ffff:192.0.2.1'];
    const { project } = await create({ settings: { allowed_ips: { ips, protected_branches_only: true } } });
    assert.deepEqual(project.settings.allowed_ips, { ips, protected_branches_only: true });
    const patch = (settings: object) =>
      api.call('PATCH', `/projects/${project.id}`, { body: { project: { settings } } });
    const blocked = await patch({ block_public_connections: true });
    assert.deepEqual(blocked.body.project.settings.allowed_ips.ips, ips);
    assert.equal(blocked.body.project.settings.block_public_connections, true);
    const replaced = await patch({ allowed_ips: { ips: ['::1'] } });
    assert.deepEqual(replaced.body.project.settings.allowed_ips, { ips: ['::1'], protected_branches_only: false });
    const emptied = await patch({ allowed_ips: { ips: [] }, block_public_connections: false });
    assert.deepEqual(emptied.body.project.settings.allowed_ips, { ips: [], protected_branches_only: false });
    assert.deepEqual(emptied.body.operations, []);
  });

  it('say which libraries their computes load, of those that there are', async () => {
    const { body } = await api.call('POST', '/projects', { body: { project: { pg_version: 16 } } });
    const path = `/projects/${body.project.id}`;
    const { libraries } = (await api.call('GET', `${path}/available_preload_libraries`)).body;
    assert.deepEqual(
      libraries.map(({ description: _, ...library }: { description: string }) => library),
      [
        { library_name: 'pg_stat_statements', is_default: true, is_experimental: false, version: '1.10' },
        { library_name: 'pg_prewarm', is_default: false, is_experimental: false, version: '1.2' },
      ],
    );
    const change = (enabled_libraries: string[]) =>
      api.call('PATCH', path, { body: { project: { settings: { preload_libraries: { enabled_libraries } } } } });
    const taken = await change(['pg_prewarm']);
    assert.equal(taken.status, 200);
    assert.deepEqual(taken.body.project.settings.preload_libraries, { enabled_libraries: ['pg_prewarm'] });
    const refused = await change(['pg_stat_statements', 'timescaledb']);
    assert.equal(refused.status, 501);
    assert.match(refused.body.message, /"timescaledb"/);
  });

  it('restart active endpoints when logical replication comes on, which it stays', async () => {
    const { project, endpoints } = await create({});
    await settle();
    await api.store.pool.query(`update coppice.endpoints set observed_state = 'running' where id = $1`, [
      endpoints[0].id,
    ]);
    const patch = (on: boolean) =>
      api.call('PATCH', `/projects/${project.id}`, {
        body: { project: { settings: { enable_logical_replication: on } } },
      });
    const on = await patch(true);
    assert.deepEqual(actions(on.body), [
      ['suspend_compute', 'running', endpoints[0].id],
      ['start_compute', 'scheduling', endpoints[0].id],
    ]);
    assert.deepEqual((await patch(true)).body.operations, []);
    const off = await patch(false);
    assert.equal(off.status, 422);
    const { body } = await api.call('GET', `/projects/${project.id}`);
    assert.equal(body.project.settings.enable_logical_replication, true);
  });

  it('are gone at once when deleted, with all that is in them', async () => {
    const { project, branch, endpoints } = await create({});
    const deleted = await api.call('DELETE', `/projects/${project.id}`);
    assert.equal(deleted.status, 200);
    assert.equal('operations' in deleted.body, false);
    for (const path of ['', '/branches', `/branches/${branch.id}`, `/endpoints/${endpoints[0].id}`, '/operations']) {
      assert.equal((await api.call('GET', `/projects/${project.id}${path}`)).status, 404, path);
    }
    assert.equal((await api.call('DELETE', `/projects/${project.id}`)).status, 404);
    const { rows } = await api.store.pool.query(
      'select action, status from coppice.operations where project_id = $1 order by created_at',
      [project.id],
    );
    assert.deepEqual(
      rows.map((row) => `${row.action} ${row.status}`),
      ['create_timeline cancelled', 'start_compute cancelled', 'delete_tenant running'],
    );
  });

  it('are not deleted while a branch of theirs is protected', async () => {
    const { project, branch } = await create({});
    const protect = (on: boolean) =>
      api.call('PATCH', `/projects/${project.id}/branches/${branch.id}`, { body: { branch: { protected: on } } });
    assert.equal((await protect(true)).status, 200);
    const refused = await api.call('DELETE', `/projects/${project.id}`);
    assert.equal(refused.status, 422);
    assert.ok(refused.body.message.includes(branch.id));
    await protect(false);
    assert.equal((await api.call('DELETE', `/projects/${project.id}`)).status, 200);
  });

  const window = (start_time: string) => ({ weekdays: [1, 7], start_time, end_time: '05:00' });
  const actions = (body: { operations: { action: string; status: string; endpoint_id?: string }[] }) =>
    body.operations.map((one) => [one.action, one.status, one.endpoint_id]);
  /** What an engine would do: everything is finished. */
  const settle = () =>
    api.store.pool.query(`update coppice.operations set status = 'finished', finished_at = now()
      where status in ('scheduling', 'running')`);
});
