import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { wakeEndpoint } from '../../src/actions/wake-endpoint.ts';
import { createCall } from '../../src/store/calls.ts';
import { lockSettledEndpoint } from '../../src/store/watched.ts';
import { startTestApi, type TestApi } from '../support/api-server.ts';
import { createReadyBranch, createSleepingProject, finishOperations, type TestProject } from '../support/project.ts';
import { seededRandom, testSeed } from '../support/random.ts';

const ROUNDS = 6;
const CALLS_PER_ROUND = 40;

/** What a caller who is in somebody's way may be told. Never that something broke. */
const EXPECTED = [200, 201, 204, 404, 409, 422, 423];

describe('many changes of one project at once', () => {
  let api: TestApi;
  let project: TestProject;
  before(async () => {
    api = await startTestApi();
    project = await createSleepingProject(api);
  });
  after(() => api?.close());

  /** What the platform does by itself to a compute that is idle. */
  const suspendWhenSettled = (id: string, branch_id: string, timeline_id: string, started_at: Date | null) =>
    api.context.store.transaction().execute(async (trx) => {
      if (!(await lockSettledEndpoint(trx, { id, project_id: project.id, started_at }))) return;
      await createCall(trx, project.id, [{ action: 'suspend_compute', endpoint_id: id, branch_id, timeline_id }]);
    });

  it('all end well, and leave a project that makes sense', async (t) => {
    const seed = testSeed();
    t.diagnostic(`COPPICE_TEST_SEED=${seed}`);
    const random = seededRandom(seed);
    const pick = <T>(from: readonly T[]): T => from[Math.floor(random() * from.length)]!;
    const root = `/projects/${project.id}`;
    for (let round = 0; round < ROUNDS; round++) {
      await createReadyBranch(api, project, {}, [{ type: 'read_write' }]);
      const branches = (await api.call('GET', `${root}/branches`)).body.branches.map(({ id }: { id: string }) => id);
      const { store } = api.context;
      const endpoints = await store
        .selectFrom('endpoints')
        .innerJoin('branches', 'branches.id', 'endpoints.branch_id')
        .select(['endpoints.id', 'branch_id', 'timeline_id', 'started_at'])
        .where('endpoints.deleted_at', 'is', null)
        .execute();
      const name = () => `name-${Math.floor(random() * 4)}`;
      const someBranch = () => `${root}/branches/${pick(branches)}`;
      const someEndpoint = () => `${root}/endpoints/${pick(endpoints).id}`;
      const changes: (() => Promise<{ status: number; body?: { message?: string } } | undefined>)[] = [
        () => api.call('POST', `${root}/branches`, { body: { branch: { name: name(), parent_id: pick(branches) } } }),
        () => api.call('PATCH', someBranch(), { body: { branch: { name: name() } } }),
        () => api.call('POST', `${someBranch()}/set_as_default`),
        () => api.call('DELETE', someBranch()),
        () => api.call('POST', `${someBranch()}/roles`, { body: { role: { name: name() } } }),
        () => api.call('DELETE', `${someBranch()}/roles/${name()}`),
        () => api.call('POST', `${someBranch()}/roles/neondb_owner/reset_password`),
        () =>
          api.call('POST', `${someBranch()}/databases`, {
            body: { database: { name: name(), owner_name: 'neondb_owner' } },
          }),
        () => api.call('PATCH', `${someBranch()}/databases/${name()}`, { body: { database: { name: name() } } }),
        () => api.call('DELETE', `${someBranch()}/databases/${name()}`),
        () =>
          api.call('POST', `${root}/endpoints`, {
            body: { endpoint: { branch_id: pick(branches), type: 'read_write' } },
          }),
        () => api.call('PATCH', someEndpoint(), { body: { endpoint: { branch_id: pick(branches) } } }),
        () => api.call('PATCH', someEndpoint(), { body: { endpoint: { autoscaling_limit_max_cu: pick([1, 2]) } } }),
        () => api.call('POST', `${someEndpoint()}/${pick(['start', 'suspend', 'restart'])}`),
        () => api.call('DELETE', someEndpoint()),
        () =>
          wakeEndpoint(api.context, pick(endpoints).id).then(
            () => undefined,
            (error) => ({ status: error.status ?? 500, body: error }),
          ),
        async () => {
          const { id, branch_id, timeline_id, started_at } = pick(endpoints);
          await suspendWhenSettled(id, branch_id, timeline_id, started_at);
          return undefined;
        },
      ];
      const answers = await Promise.all(Array.from({ length: CALLS_PER_ROUND }, () => pick(changes)()));
      for (const answer of answers) {
        assert.ok(!answer || EXPECTED.includes(answer.status), `${answer?.status} ${answer?.body?.message}`);
      }
      if (round % 2 === 1) await finishOperations(api, project.id);
    }
    await checkProject();
  });

  async function checkProject(): Promise<void> {
    const { body } = await api.call('GET', `/projects/${project.id}/branches`);
    const living = new Set(body.branches.map(({ id }: { id: string }) => id));
    assert.equal(body.branches.filter((branch: { default: boolean }) => branch.default).length, 1);
    for (const { parent_id } of body.branches) assert.ok(parent_id === undefined || living.has(parent_id));
    const { endpoints } = (await api.call('GET', `/projects/${project.id}/endpoints`)).body;
    const served = endpoints.map(({ branch_id }: { branch_id: string }) => branch_id);
    assert.equal(new Set(served).size, served.length, 'a branch has one read_write endpoint at most');
    for (const branch_id of served) assert.ok(living.has(branch_id), 'an endpoint belongs to a living branch');
    const { rows } = await api.store.pool.query(
      'select count(*) as rows, count(distinct created_at) as times from coppice.operations where project_id = $1',
      [project.id],
    );
    assert.equal(rows[0].times, rows[0].rows, 'operations of a project have distinct times');
  }
});
