import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import pg from 'pg';
import { removeDataDirectory, startCoppice, type TestCoppice } from '../support/coppice.ts';
import { until } from '../support/until.ts';

/** What the API is told is what a server does: from the call to SQL, through the engine and the gateway. */
describe('a change made through the API', { timeout: 240_000 }, () => {
  let coppice: TestCoppice;
  let project: string;
  let branch: string;
  let endpoint: string;
  let uri: string;
  before(async () => {
    coppice = await startCoppice();
    const created = await coppice.must('POST', '/projects', { project: {} });
    project = created.project.id;
    branch = `/projects/${project}/branches/${created.branch.id}`;
    endpoint = `/projects/${project}/endpoints/${created.endpoints[0].id}`;
    uri = created.connection_uris[0].connection_uri;
    await coppice.settled(project);
  });
  after(async () => {
    await coppice?.stop();
    if (coppice) await removeDataDirectory(coppice.data_directory);
  });

  const withClient = async <T>(connectionString: string, use: (client: pg.Client) => Promise<T>): Promise<T> => {
    const client = new pg.Client({ connectionString });
    client.on('error', () => undefined);
    await client.connect();
    try {
      return await use(client);
    } finally {
      await client.end().catch(() => undefined);
    }
  };
  const show = (client: pg.Client, name: string) =>
    client.query(`show ${name}`).then(({ rows }) => Object.values(rows[0])[0]);
  const change = async (method: string, path: string, body?: unknown) => {
    const answer = await coppice.must(method, path, body);
    await coppice.settled(project);
    return answer;
  };
  const state = async () => (await coppice.must('GET', endpoint)).endpoint.current_state;
  const suspend = () => change('POST', `${endpoint}/suspend`);
  const as = (role: { name: string; password: string }, database = 'neondb') => {
    const url = new URL(uri);
    url.username = role.name;
    url.password = role.password;
    url.pathname = database;
    return url.href;
  };

  it('of a setting reaches the sessions that are open, or drops them where it needs a restart', async () => {
    await withClient(uri, async (client) => {
      const ended = new Promise((resolve) => client.once('end', resolve));
      await change('PATCH', endpoint, { endpoint: { settings: { pg_settings: { work_mem: '16MB' } } } });
      // The server tells its sessions one by one.
      await until(async () => (await show(client, 'work_mem')) === '16MB', { what: 'the setting in the session' });
      const settings = { pg_settings: { work_mem: '16MB', max_locks_per_transaction: '128' } };
      await change('PATCH', endpoint, { endpoint: { settings } });
      await ended;
    });
    assert.equal(await withClient(uri, (client) => show(client, 'max_locks_per_transaction')), '128');
  });

  it('of the size of a sleeping compute leaves it asleep, and is there when it wakes', async () => {
    await suspend();
    await change('PATCH', endpoint, { endpoint: { autoscaling_limit_max_cu: 2 } });
    assert.equal(await state(), 'idle');
    assert.equal(await withClient(uri, (client) => show(client, 'max_connections')), '901');
  });

  it('of a role lets it in at once, by its newest password only, and keeps it out once it is deleted', async () => {
    const { role } = await change('POST', `${branch}/roles`, { role: { name: 'casey' } });
    const whoami = (uri: string) =>
      withClient(uri, async (client) => (await client.query('select current_user as name')).rows[0].name);
    assert.equal(await whoami(as(role)), 'casey');
    const reset = await change('POST', `${branch}/roles/casey/reset_password`);
    await assert.rejects(whoami(as(role)), { code: '28P01' });
    assert.equal(await whoami(as(reset.role)), 'casey');
    await change('DELETE', `${branch}/roles/casey`);
    await assert.rejects(whoami(as(reset.role)), { code: '28P01' });
    const again = await change('POST', `${branch}/roles`, { role: { name: 'casey' } });
    assert.equal(await whoami(as(again.role)), 'casey');
  });

  it('of roles and databases of a sleeping compute wakes it for that alone', async () => {
    await suspend();
    const { role } = await change('POST', `${branch}/roles`, { role: { name: 'owner of shop' } });
    assert.equal(await state(), 'idle');
    await change('POST', `${branch}/databases`, { database: { name: 'shop', owner_name: 'owner of shop' } });
    assert.equal(await state(), 'idle');
    await withClient(as(role, 'shop'), (client) => client.query('create table stock ()'));
    await suspend();
    await change('PATCH', `${branch}/databases/shop`, { database: { name: 'store' } });
    await withClient(as(role, 'store'), (client) => client.query('table stock'));
    await change('DELETE', `${branch}/databases/store`);
    await assert.rejects(
      withClient(as(role, 'store'), (client) => client.query('select 1')),
      { code: '3D000' },
    );
    await change('DELETE', `${branch}/roles/owner%20of%20shop`);
  });

  it('that deletes and makes a database of one name leaves an empty one, in the branch and in its child', async () => {
    await change('POST', `${branch}/databases`, { database: { name: 'phoenix', owner_name: 'neondb_owner' } });
    const phoenix = (of: string) => of.replace('/neondb?', '/phoenix?');
    await withClient(phoenix(uri), (client) => client.query('create table ashes ()'));
    await coppice.must('DELETE', `${branch}/databases/phoenix`);
    await coppice.must('POST', `${branch}/databases`, { database: { name: 'phoenix', owner_name: 'neondb_owner' } });
    const child = await change('POST', `/projects/${project}/branches`, { endpoints: [{ type: 'read_write' }] });
    assert.equal('connection_uris' in child, false);
    const childUri = uri.replace(/ep-[a-z0-9-]+/g, child.endpoints[0].id);
    for (const server of [uri, childUri]) {
      await withClient(phoenix(server), async (client) => {
        const { rows } = await client.query("select to_regclass('ashes') as ashes");
        assert.equal(rows[0].ashes, null);
        await client.query('create table feathers ()');
      });
    }
  });

  it('of a disabled endpoint keeps everybody out until it is enabled', async () => {
    await change('PATCH', endpoint, { endpoint: { disabled: true } });
    assert.equal(await state(), 'idle');
    await assert.rejects(withClient(uri, (client) => client.query('select 1')));
    await change('PATCH', endpoint, { endpoint: { disabled: false } });
    // Nothing is done about it, so the news may be on its way still.
    const enters = () =>
      withClient(uri, (client) => client.query('select 1')).then(
        () => true,
        () => false,
      );
    await until(enters, { what: 'the endpoint to be entered again' });
  });
});
