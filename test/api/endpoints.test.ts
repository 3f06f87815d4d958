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

interface ShownOperation {
  id: string;
  action: string;
  status: string;
  endpoint_id?: string;
}

const planned = (body: { operations: ShownOperation[] }) =>
  body.operations.map(({ action, status }) => [action, status]);

describe('endpoints', () => {
  let api: TestApi;
  let project: TestProject;
  before(async () => {
    api = await startTestApi();
  });
  after(() => api?.close());
  beforeEach(async () => {
    project = await createSleepingProject(api);
  });

  const endpoints = () => `/projects/${project.id}/endpoints`;
  const one = (verb = '') => `${endpoints()}/${project.endpoint_id}${verb}`;
  const patch = (endpoint: unknown) => api.call('PATCH', one(), { body: { endpoint } });
  const create = (endpoint: unknown) => api.call('POST', endpoints(), { body: { endpoint } });
  const wakeUp = () => observeEndpoint(api, project.endpoint_id, 'running');
  const bareBranch = async () => (await createReadyBranch(api, project)).branch.id as string;

  describe('creating one', () => {
    it('starts it: init, on its way to active', async () => {
      const { status, body } = await create({ branch_id: await bareBranch(), type: 'read_write' });
      assert.equal(status, 201);
      assert.match(body.endpoint.id, /^ep-[a-z0-9]+-[a-z0-9]+-[a-z0-9]{8}$/);
      assert.equal(body.endpoint.current_state, 'init');
      assert.equal(body.endpoint.pending_state, 'active');
      assert.deepEqual(body.endpoint.settings, { pg_settings: {} });
      assert.equal(body.endpoint.pooler_mode, 'transaction');
      assert.equal('last_active' in body.endpoint, false);
      assert.deepEqual(planned(body), [['start_compute', 'running']]);
      assert.equal(body.operations[0].endpoint_id, body.endpoint.id);
    });

    it('has a host that begins with its id, so that clients can derive the pooled one', async () => {
      const { body } = await create({ branch_id: await bareBranch(), type: 'read_write' });
      assert.equal(body.endpoint.host.split('.')[0], body.endpoint.id);
      assert.equal(body.endpoint.host, `${body.endpoint.id}.${body.endpoint.proxy_host}`);
    });

    it('takes what the project gives its endpoints, and what is asked for instead', async () => {
      const own = await createSleepingProject(api, {
        default_endpoint_settings: {
          autoscaling_limit_min_cu: 1,
          autoscaling_limit_max_cu: 4,
          suspend_timeout_seconds: 600,
          pg_settings: { work_mem: '8MB' },
        },
      });
      const branch = async () => (await createReadyBranch(api, own)).branch.id;
      const path = `/projects/${own.id}/endpoints`;
      const plain = await api.call('POST', path, {
        body: { endpoint: { branch_id: await branch(), type: 'read_write' } },
      });
      assert.equal(plain.body.endpoint.autoscaling_limit_min_cu, 1);
      assert.equal(plain.body.endpoint.autoscaling_limit_max_cu, 4);
      assert.equal(plain.body.endpoint.suspend_timeout_seconds, 600);
      assert.deepEqual(plain.body.endpoint.settings.pg_settings, { work_mem: '8MB' });
      const endpoint = {
        branch_id: await branch(),
        type: 'read_write',
        name: 'mine',
        autoscaling_limit_min_cu: 6,
        suspend_timeout_seconds: -1,
        pooler_enabled: true,
        passwordless_access: false,
        settings: { pg_settings: { jit: 'off' } },
      };
      const { body } = await api.call('POST', path, { body: { endpoint } });
      assert.equal(body.endpoint.autoscaling_limit_max_cu, 6);
      assert.equal(body.endpoint.name, 'mine');
      assert.equal(body.endpoint.pooler_enabled, true);
      assert.equal(body.endpoint.passwordless_access, false);
      assert.deepEqual(body.endpoint.settings.pg_settings, { jit: 'off' });
    });

    it('does not start one that is disabled', async () => {
      const { body } = await create({ branch_id: await bareBranch(), type: 'read_write', disabled: true });
      assert.equal(body.endpoint.disabled, true);
      assert.deepEqual(body.operations, []);
      const started = await api.call('POST', `${endpoints()}/${body.endpoint.id}/start`);
      assert.equal(started.status, 422);
      assert.match(started.body.message, /^endpoint is disabled/);
    });

    it('refuses a second read_write one, naming the first', async () => {
      const { status, body } = await create({ branch_id: project.branch_id, type: 'read_write' });
      assert.equal(status, 422);
      assert.equal(body.code, 'ENDPOINTS_LIMIT_EXCEEDED');
      assert.match(body.message, new RegExp(`^read_write endpoint already exists.*${project.endpoint_id}`));
    });

    it('gives a branch one read_write endpoint when two are asked for at once', async () => {
      const branch_id = await bareBranch();
      const answers = await Promise.all([1, 2].map(() => create({ branch_id, type: 'read_write' })));
      assert.deepEqual(answers.map(({ status }) => status).sort(), [201, 422]);
    });

    it('gives a branch as many read_only ones as are asked for, beside its read_write one', async () => {
      const replicas = await Promise.all(
        [1, 2].map(() => create({ branch_id: project.branch_id, type: 'read_only', autoscaling_limit_max_cu: 1 })),
      );
      for (const { status, body } of replicas) {
        assert.equal(status, 201);
        assert.equal(body.endpoint.type, 'read_only');
        assert.equal(body.endpoint.current_state, 'init');
        assert.equal(body.endpoint.pending_state, 'active');
        assert.deepEqual(
          body.operations.map(({ action }: { action: string }) => action),
          ['start_compute'],
        );
      }
      const alone = await create({ branch_id: await bareBranch(), type: 'read_only' });
      assert.equal(alone.status, 201);
    });

    it('refuses an unknown branch, one that is not ready, another region, and another type', async () => {
      const young = await api.call('POST', `/projects/${project.id}/branches`);
      for (const [endpoint, status, message] of [
        [{ branch_id: 'br-no-such-12345678', type: 'read_write' }, 404, /^branch not found$/],
        [{ branch_id: young.body.branch.id, type: 'read_write' }, 422, /^branch not ready yet$/],
        [{ branch_id: project.branch_id, type: 'read_write', region_id: 'aws-us-east-1' }, 400, /must be local/],
        [{ branch_id: project.branch_id, type: 'read_mostly' }, 400, /must be one of read_write, read_only/],
        [{ branch_id: project.branch_id }, 400, /type/],
      ] as const) {
        const { status: seen, body } = await create(endpoint);
        assert.equal(seen, status, JSON.stringify(endpoint));
        assert.match(body.message, message);
      }
    });

    it('refuses settings that are nil, and settings that are not for customers', async () => {
      const branch_id = await bareBranch();
      for (const [settings, status, message] of [
        [{}, 400, /settings must not be nil/],
        [{ pg_settings: { fsync: 'off' } }, 400, /name:"fsync"/],
        [{ pg_settings: { work_mem: '64mb' } }, 400, /name:"work_mem", problem:"the value must be a whole number/],
        [{ pg_settings: { work_mem: 64 } }, 400, /settings\.pg_settings/],
        [{ pg_settings: {}, pgbouncer_settings: { pool_mode: 'session' } }, 501, /not available/],
        [{ pg_settings: {}, preload_libraries: { enabled_libraries: ['timescaledb'] } }, 501, /not available/],
      ] as const) {
        const { status: seen, body } = await create({ branch_id, type: 'read_write', settings });
        assert.equal(seen, status, JSON.stringify(settings));
        assert.match(body.message, message);
      }
    });
  });

  describe('sizes and times', () => {
    const sizes: [min: number, max: number, status: number][] = [
      [0.25, 0.25, 200],
      [0.25, 2, 200],
      [8, 16, 200],
      [56, 56, 200],
      [0.2, 0.2, 400],
      [1.5, 1.5, 400],
      [2, 1, 400],
      [0.25, 9, 400],
      [16, 18, 400],
      [17, 17, 400],
      [58, 58, 400],
    ];
    for (const [min, max, status] of sizes) {
      it(`${status === 200 ? 'takes' : 'refuses'} ${min} to ${max} CU`, async () => {
        const answer = await patch({ autoscaling_limit_min_cu: min, autoscaling_limit_max_cu: max });
        assert.equal(answer.status, status, answer.body.message);
        if (status === 400) assert.match(answer.body.message, /^compute size is not allowed/);
      });
    }
    for (const [seconds, status] of [
      [-2, 400],
      [-1, 200],
      [0, 200],
      [59, 400],
      [60, 200],
      [604_800, 200],
      [604_801, 400],
      [90.5, 400],
    ]) {
      it(`${status === 200 ? 'takes' : 'refuses'} a suspend timeout of ${seconds} s`, async () => {
        assert.equal((await patch({ suspend_timeout_seconds: seconds })).status, status);
      });
    }
  });

  describe('starting one', () => {
    it('that sleeps starts it', async () => {
      const { status, body } = await api.call('POST', one('/start'));
      assert.equal(status, 200);
      assert.deepEqual([body.endpoint.current_state, body.endpoint.pending_state], ['idle', 'active']);
      assert.deepEqual(planned(body), [['start_compute', 'running']]);
    });

    it('that runs does nothing', async () => {
      await wakeUp();
      const { status, body } = await api.call('POST', one('/start'));
      assert.equal(status, 200);
      assert.equal(body.endpoint.current_state, 'active');
      assert.equal('pending_state' in body.endpoint, false);
      assert.deepEqual(body.operations, []);
    });

    it('twenty times at once is one operation', async () => {
      const answers = await Promise.all(Array.from({ length: 20 }, () => api.call('POST', one('/start'))));
      const ids = new Set(answers.flatMap(({ body }) => body.operations.map(({ id }: ShownOperation) => id)));
      assert.equal(ids.size, 1);
      const { operations } = (await api.call('GET', `/projects/${project.id}/operations?limit=2`)).body;
      assert.deepEqual(
        operations.map(({ action, status }: ShownOperation) => [action, status]),
        [
          ['start_compute', 'running'],
          ['start_compute', 'finished'],
        ],
      );
    });

    it('that is being suspended queues a start behind', async () => {
      await wakeUp();
      await api.call('POST', one('/suspend'));
      const { status, body } = await api.call('POST', one('/start'));
      assert.equal(status, 200);
      assert.equal(body.endpoint.pending_state, 'active');
      assert.deepEqual(planned(body), [['start_compute', 'running']]);
    });

    it('of another project, or that never was, is 404', async () => {
      const other = await createSleepingProject(api);
      for (const id of [other.endpoint_id, 'ep-no-such-12345678']) {
        for (const verb of ['start', 'suspend', 'restart']) {
          const { status, body } = await api.call('POST', `${endpoints()}/${id}/${verb}`);
          assert.deepEqual([status, body.message], [404, 'endpoint not found']);
        }
      }
    });
  });

  describe('suspending one', () => {
    it('that runs puts it to sleep', async () => {
      await wakeUp();
      const { status, body } = await api.call('POST', one('/suspend'));
      assert.equal(status, 200);
      assert.deepEqual([body.endpoint.current_state, body.endpoint.pending_state], ['active', 'idle']);
      assert.deepEqual(planned(body), [['suspend_compute', 'running']]);
    });

    it('that sleeps does nothing', async () => {
      const { status, body } = await api.call('POST', one('/suspend'));
      assert.equal(status, 200);
      assert.deepEqual(body.operations, []);
    });

    it('that is on its way somewhere is 423, to be tried again soon', async () => {
      await api.call('POST', one('/start'));
      for (const verb of ['suspend', 'restart']) {
        const { status, headers, body } = await api.call('POST', one(`/${verb}`));
        assert.equal(status, 423);
        assert.equal(body.message, `endpoint is in some transitive state, could not ${verb}`);
        assert.ok(Number(headers['retry-after']) >= 1 && Number(headers['retry-after']) <= 5);
      }
      await finishOperations(api, project.id);
      assert.equal((await api.call('POST', one('/suspend'))).status, 200);
    });
  });

  describe('restarting one', () => {
    it('that runs stops and starts it', async () => {
      await wakeUp();
      const { status, body } = await api.call('POST', one('/restart'));
      assert.equal(status, 200);
      assert.deepEqual(planned(body), [
        ['suspend_compute', 'running'],
        ['start_compute', 'scheduling'],
      ]);
      assert.deepEqual([body.endpoint.current_state, body.endpoint.pending_state], ['active', 'active']);
    });

    it('that sleeps is refused', async () => {
      const { status, body } = await api.call('POST', one('/restart'));
      assert.equal(status, 422);
      assert.match(body.message, /only an active endpoint can be restarted/);
    });
  });

  describe('changing one', () => {
    const changes: [title: string, change: object, active: string[], idle: string[]][] = [
      ['its name', { name: 'renamed' }, [], []],
      ['its suspend timeout', { suspend_timeout_seconds: 120 }, [], []],
      ['its pooler flag', { pooler_enabled: true }, [], []],
      [
        'its size',
        { autoscaling_limit_max_cu: 2 },
        ['suspend_compute', 'start_compute'],
        ['apply_config', 'suspend_compute'],
      ],
      [
        'a setting that is read anew',
        { settings: { pg_settings: { work_mem: '16MB' } } },
        ['apply_config'],
        ['apply_config', 'suspend_compute'],
      ],
      [
        'a setting that needs a restart',
        { settings: { pg_settings: { max_locks_per_transaction: '128' } } },
        ['suspend_compute', 'start_compute'],
        ['apply_config', 'suspend_compute'],
      ],
      ['it to disabled', { disabled: true }, ['suspend_compute'], []],
      ['nothing', { autoscaling_limit_min_cu: 0.25 }, [], []],
    ];
    for (const [title, change, active, idle] of changes) {
      it(`${title} starts [${active}] while it runs and [${idle}] while it sleeps`, async () => {
        const asleep = await patch(change);
        assert.equal(asleep.status, 200);
        assert.deepEqual(
          asleep.body.operations.map(({ action }: ShownOperation) => action),
          idle,
        );
        assert.equal(asleep.body.endpoint.pending_state, idle.length > 0 ? 'idle' : undefined);
        project = await createSleepingProject(api);
        await wakeUp();
        const awake = await patch(change);
        assert.deepEqual(
          awake.body.operations.map(({ action }: ShownOperation) => action),
          active,
        );
        for (const [index, { status }] of awake.body.operations.entries()) {
          assert.equal(status, index === 0 ? 'running' : 'scheduling');
        }
      });
    }

    it('to a larger size restarts the read replicas that run first', async () => {
      await wakeUp();
      const made = await create({ branch_id: project.branch_id, type: 'read_only' });
      const asleep = await create({ branch_id: project.branch_id, type: 'read_only', disabled: true });
      assert.equal(asleep.status, 201);
      await finishOperations(api, project.id);
      await observeEndpoint(api, made.body.endpoint.id, 'running');
      const starts = async (size: number) => {
        const { body } = await patch({ autoscaling_limit_min_cu: size, autoscaling_limit_max_cu: size });
        await finishOperations(api, project.id);
        return body.operations.map(({ action, endpoint_id }: { action: string; endpoint_id: string }) => [
          action,
          endpoint_id === project.endpoint_id ? 'primary' : endpoint_id === made.body.endpoint.id ? 'replica' : 'other',
        ]);
      };
      const primary = [
        ['suspend_compute', 'primary'],
        ['start_compute', 'primary'],
      ];
      assert.deepEqual(await starts(1), [['suspend_compute', 'replica'], ['start_compute', 'replica'], ...primary]);
      assert.deepEqual(await starts(0.5), primary);
    });

    it('leaves its time of change alone when nothing changes', async () => {
      const before = await api.call('GET', one());
      const { body } = await patch({ name: undefined, settings: {} });
      assert.deepEqual(body.endpoint, before.body.endpoint);
    });

    it('moves it to a branch that has none: it keeps its host and sleeps, applied', async () => {
      const branch_id = await bareBranch();
      const before = (await api.call('GET', one())).body.endpoint;
      const { status, body } = await patch({ branch_id });
      assert.equal(status, 200);
      assert.equal(body.endpoint.branch_id, branch_id);
      assert.equal(body.endpoint.host, before.host);
      assert.deepEqual([body.endpoint.current_state, body.endpoint.pending_state], ['idle', 'idle']);
      assert.deepEqual(planned(body), [
        ['apply_config', 'running'],
        ['suspend_compute', 'scheduling'],
      ]);
      assert.equal((await create({ branch_id: project.branch_id, type: 'read_write' })).status, 201);
    });

    it('does not move it where one is already, or nowhere', async () => {
      const other = await createReadyBranch(api, project, {}, [{ type: 'read_write' }]);
      assert.equal((await patch({ branch_id: other.branch.id })).status, 422);
      assert.equal((await patch({ branch_id: 'br-no-such-12345678' })).status, 404);
    });

    it('is refused as a whole when a part of it is', async () => {
      const { status } = await patch({ name: 'half', settings: { pg_settings: { fsync: 'off' } } });
      assert.equal(status, 400);
      assert.equal('name' in (await api.call('GET', one())).body.endpoint, false);
      assert.equal((await patch({ name: '' })).status, 400);
      assert.equal((await patch({ name: 'x'.repeat(65) })).status, 400);
      assert.equal((await api.call('PATCH', one(), { body: {} })).status, 400);
    });
  });

  describe('deleting one', () => {
    it('that runs stops it; again, it is 204', async () => {
      await wakeUp();
      const { status, body } = await api.call('DELETE', one());
      assert.equal(status, 200);
      assert.deepEqual(planned(body), [['suspend_compute', 'running']]);
      assert.equal((await api.call('GET', one())).status, 404);
      const again = await api.call('DELETE', one());
      assert.deepEqual([again.status, again.body], [204, undefined]);
    });

    it('that sleeps starts nothing, and a new one has another host', async () => {
      const { body } = await api.call('DELETE', one());
      assert.deepEqual(body.operations, []);
      const made = await create({ branch_id: project.branch_id, type: 'read_write' });
      assert.notEqual(made.body.endpoint.host, body.endpoint.host);
    });

    it('that is being started cancels the start', async () => {
      const started = await api.call('POST', one('/start'));
      const { body } = await api.call('DELETE', one());
      assert.deepEqual(planned(body), [['suspend_compute', 'running']]);
      const path = `/projects/${project.id}/operations/${started.body.operations[0].id}`;
      assert.equal((await api.call('GET', path)).body.operation.status, 'cancelled');
    });

    it('of a protected branch is refused', async () => {
      await api.call('PATCH', `/projects/${project.id}/branches/${project.branch_id}`, {
        body: { branch: { protected: true } },
      });
      const { status, body } = await api.call('DELETE', one());
      assert.deepEqual([status, body.message], [422, 'cannot delete the endpoint of a protected branch']);
    });

    it('of another project does not touch it', async () => {
      const other = await createSleepingProject(api);
      assert.equal((await api.call('DELETE', `${endpoints()}/${other.endpoint_id}`)).status, 204);
      assert.equal((await api.call('GET', `/projects/${other.id}/endpoints/${other.endpoint_id}`)).status, 200);
    });
  });

  it('lists those of the project, the oldest first', async () => {
    const made = await createReadyBranch(api, project, {}, [{ type: 'read_write' }]);
    const { body } = await api.call('GET', endpoints());
    assert.deepEqual(
      body.endpoints.map(({ id }: ShownOperation) => id),
      [project.endpoint_id, made.endpoints[0].id],
    );
  });

  it('shows the same row to many who look at once', async () => {
    const answers = await Promise.all(Array.from({ length: 50 }, () => api.call('GET', endpoints())));
    for (const { body } of answers) assert.equal(body.endpoints[0].id, project.endpoint_id);
  });
});
