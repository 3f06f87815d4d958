import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import pino from 'pino';
import { deleteExpired } from '../../src/engine/chores/expiry.ts';
import type { EngineContext } from '../../src/engine/context.ts';
import { startSecondApi, startTestApi, type TestApi } from '../support/api-server.ts';
import { createReadyBranch, createSleepingProject, type TestProject } from '../support/project.ts';

const TEN_MINUTES_MS = 600_000;

/** What jobs that come and go need of branches: to ask for one again and again, and to lose it when they are gone. */
describe('branches of jobs', () => {
  let api: TestApi;
  let project: TestProject;
  before(async () => {
    api = await startTestApi();
    project = await createSleepingProject(api);
  });
  after(() => api?.close());

  const branches = () => `/projects/${project.id}/branches`;
  const create = (body: unknown, at = api) => at.call('POST', branches(), { body });
  const show = async (id: string) => (await api.call('GET', `${branches()}/${id}`)).body.branch;

  describe('asked for by name if there is none', () => {
    it('are made the first time, and then given back with their endpoint, as they are', async () => {
      const body = { if_absent: true, branch: { name: 'preview/pr-1' }, endpoints: [{ type: 'read_write' }] };
      const first = await create(body);
      assert.equal(first.status, 201);
      const second = await create(body);
      assert.equal(second.status, 200);
      assert.equal(second.body.branch.id, first.body.branch.id);
      assert.deepEqual(
        second.body.endpoints.map(({ id }: { id: string }) => id),
        first.body.endpoints.map(({ id }: { id: string }) => id),
      );
      assert.deepEqual(second.body.roles, first.body.roles);
      assert.deepEqual(second.body.databases, first.body.databases);
      assert.deepEqual(second.body.connection_uris, first.body.connection_uris);
      // Whoever waits for what is listed waits for what the first call began.
      const ids = (operations: readonly { id: string }[]) => operations.map(({ id }) => id);
      assert.deepEqual(ids(second.body.operations), ids(first.body.operations));
    });

    it('are made once, however many ask at once and of which process', async () => {
      const other = await startSecondApi(api);
      try {
        const body = { if_absent: true, branch: { name: 'at once' } };
        const answers = await Promise.all([api, other, api, other, api, other].map((at) => create(body, at)));
        assert.deepEqual(answers.map(({ status }) => status).sort(), [200, 200, 200, 200, 200, 201]);
        assert.equal(new Set(answers.map((answer) => answer.body.branch.id)).size, 1);
      } finally {
        await other.close();
      }
    });

    it('are never another branch than the one that is meant: not the default one, and none of another parent', async () => {
      const { name } = await show(project.branch_id);
      const main = await create({ if_absent: true, branch: { name } });
      assert.deepEqual([main.status, main.body.code], [409, 'BRANCH_ALREADY_EXISTS']);
      const parent = (await createReadyBranch(api, project, { name: 'a parent' })).branch;
      await create({ if_absent: true, branch: { name: 'a child', parent_id: parent.id } });
      const same = await create({ if_absent: true, branch: { name: 'a child', parent_id: parent.id } });
      assert.equal(same.status, 200);
      const other = await create({ if_absent: true, branch: { name: 'a child', parent_id: project.branch_id } });
      assert.equal(other.status, 409);
    });

    it('need a name, and are refused like others without it', async () => {
      const nameless = await create({ if_absent: true });
      assert.deepEqual([nameless.status, /branch\.name/.test(nameless.body.message)], [400, true]);
      const body = { branch: { name: 'preview/pr-2' } };
      assert.deepEqual([(await create(body)).status, (await create(body)).status], [201, 409]);
      assert.equal((await create({ ...body, if_absent: false })).status, 409);
    });
  });

  describe('with a lease', () => {
    const renew = (id: string, body?: unknown) => api.call('POST', `${branches()}/${id}/renew_lease`, { body });
    /** What the engine does every few seconds, at a time of our choice. */
    const expireAt = async (at: Date) => {
      const { store } = api.context;
      await deleteExpired({ store, intent: store, logger: pino({ level: 'silent' }) } as unknown as EngineContext, at);
    };
    const after = (time: string, ms: number) => new Date(Date.parse(time) + ms);

    it('expire when nobody renews it, and live on when somebody does', async () => {
      const make = async (name: string) =>
        (await create({ branch: { name, lease_ttl_seconds: 600 } })).body.branch as { id: string; expires_at: string };
      const begun_at = Date.now();
      const [kept, lost] = [await make('kept'), await make('lost')];
      assert.ok(Date.parse(kept.expires_at) >= begun_at + TEN_MINUTES_MS, 'a lease is not shorter than asked for');
      await api.store.pool.query(`update coppice.branches set expires_at = expires_at - interval '9 minutes'
        where name in ('kept', 'lost')`);
      const { status, body } = await renew(kept.id);
      assert.deepEqual([status, body.operations], [200, []]);
      assert.ok(Date.parse(body.branch.expires_at) >= Date.parse(kept.expires_at));
      assert.equal(body.branch.ttl_interval_seconds, 600);
      await expireAt(after(lost.expires_at, -TEN_MINUTES_MS + 120_000));
      assert.equal((await api.call('GET', `${branches()}/${lost.id}`)).status, 404);
      assert.equal((await renew(lost.id)).status, 404);
      assert.equal((await show(kept.id)).name, 'kept');
      await expireAt(after(body.branch.expires_at, 1));
      assert.equal((await api.call('GET', `${branches()}/${kept.id}`)).status, 404);
    });

    it('have it renewed for as long as is asked for, and by whoever asks for the branch again', async () => {
      const lease = { name: 'renewed', lease_ttl_seconds: 60 };
      const { id, expires_at } = (await create({ if_absent: true, branch: lease })).body.branch;
      const longer = (await renew(id, { lease_ttl_seconds: 1200 })).body.branch;
      assert.ok(Date.parse(longer.expires_at) >= Date.parse(expires_at) + 1_100_000);
      assert.equal(longer.ttl_interval_seconds, 1200);
      const again = await create({ if_absent: true, branch: lease });
      assert.deepEqual([again.status, again.body.branch.expires_at], [200, longer.expires_at]);
      const much_longer = await create({ if_absent: true, branch: { ...lease, lease_ttl_seconds: 7200 } });
      assert.ok(Date.parse(much_longer.body.branch.expires_at) > Date.parse(longer.expires_at));
      assert.equal((await show(id)).ttl_interval_seconds, 7200);
    });

    it('are told from branches that stay, which never begin to expire by being asked for', async () => {
      const { branch } = await createReadyBranch(api, project, { name: 'stays' });
      const refused = await renew(branch.id);
      assert.deepEqual([refused.status, /does not expire/.test(refused.body.message)], [422, true]);
      const again = await create({ if_absent: true, branch: { name: 'stays', lease_ttl_seconds: 60 } });
      assert.deepEqual([again.status, 'expires_at' in again.body.branch], [200, false]);
    });

    it('are refused where an expiry would be, and outside of its bounds', async () => {
      const expires_at = new Date(Date.now() + 86_400_000).toISOString();
      for (const branch of [
        { lease_ttl_seconds: 9 },
        { lease_ttl_seconds: 30 * 86_400 + 1 },
        { lease_ttl_seconds: 60.5 },
        { lease_ttl_seconds: 60, expires_at },
      ]) {
        assert.equal((await create({ branch })).status, 400, JSON.stringify(branch));
      }
      assert.equal((await create({ branch: { lease_ttl_seconds: 60, protected: true } })).status, 422);
      assert.equal((await renew(project.branch_id)).status, 422);
      assert.equal((await renew('br-unknown-branch-12345678')).status, 404);
    });
  });
});
