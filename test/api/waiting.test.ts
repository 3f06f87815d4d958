import assert from 'node:assert/strict';
import type { AddressInfo } from 'node:net';
import { after, before, describe, it } from 'node:test';
import { OperationWaits } from '../../src/actions/operation-waits.ts';
import { createChangeWatch } from '../../src/store/change-watch.ts';
import { startSecondApi, startTestApi, type TestApi } from '../support/api-server.ts';
import { createSleepingProject, finishOperations, observeEndpoint } from '../support/project.ts';
import { until } from '../support/until.ts';

interface Operation {
  readonly id: string;
  readonly status: string;
}

/** Half of what they wait: whoever is not woken fails. */
const WOKEN = { timeout: 30_000 };

/** There is no engine here: the tests end operations as it would. */
describe('waiting for operations', () => {
  let api: TestApi;
  before(async () => {
    api = await startTestApi();
  });
  after(() => api?.close());

  const createProject = async () => {
    const { id, endpoint_id } = await createSleepingProject(api);
    return { project_id: id, endpoint_id };
  };
  const setStatus = (operations: readonly Operation[], status: string) =>
    api.store.pool.query(
      'update coppice.operations set status = $1, finished_at = clock_timestamp() where id = any($2::uuid[])',
      [status, operations.map(({ id }) => id)],
    );
  const changeRetention = async (project_id: string, seconds: number): Promise<Operation> => {
    const body = { project: { history_retention_seconds: seconds } };
    return (await api.call('PATCH', `/projects/${project_id}`, { body })).body.operations[0];
  };
  const unfinished = async (project_id: string): Promise<Operation[]> => {
    const { rows } = await api.store.pool.query<Operation>(
      "select id, status from coppice.operations where project_id = $1 and status in ('running', 'scheduling')",
      [project_id],
    );
    return rows;
  };

  /** Asks, and tells whether there is an answer yet. */
  const ask = <T>(request: Promise<T>) => {
    const asked = { answered: false, answer: request };
    request.then(
      () => Object.assign(asked, { answered: true }),
      () => Object.assign(asked, { answered: true }),
    );
    return asked;
  };
  /** Every request that came before has been read and looked once. */
  const lookedOnce = () => api.call('GET', '/regions');

  it('answers with the operation when it has ended, and not before', WOKEN, async () => {
    const { project_id } = await createProject();
    const operation = await changeRetention(project_id, 1000);
    const asked = ask(api.call('GET', `/projects/${project_id}/operations/${operation.id}?wait_s=60`));
    for (const status of ['scheduling', 'running', 'cancelling']) {
      await setStatus([operation], status);
      await lookedOnce();
      assert.equal(asked.answered, false, status);
    }
    await setStatus([operation], 'failed');
    const { status, body } = await asked.answer;
    assert.deepEqual([status, body.operation.id, body.operation.status], [200, operation.id, 'failed']);
  });

  it('hears of the end in a process that did not bring it about', WOKEN, async () => {
    const other = await startSecondApi(api);
    try {
      const { project_id } = await createProject();
      const operation = await changeRetention(project_id, 1000);
      const asked = other.call('GET', `/projects/${project_id}/operations/${operation.id}?wait_s=60`);
      await setStatus([operation], 'finished');
      assert.equal((await asked).body.operation.status, 'finished');
    } finally {
      await other.close();
    }
  });

  it('answers at once where the operation has ended, and with the operation as it is when the time is over', async () => {
    const { project_id } = await createProject();
    const operation = await changeRetention(project_id, 1000);
    const path = `/projects/${project_id}/operations/${operation.id}`;
    assert.equal((await api.call('GET', `${path}?wait_s=1`)).body.operation.status, 'running');
    assert.equal((await api.call('GET', `${path}?wait_s=0`)).body.operation.status, 'running');
    await setStatus([operation], 'skipped');
    assert.equal((await api.call('GET', `${path}?wait_s=60`)).body.operation.status, 'skipped');
    for (const wait of ['61', '-1', 'long']) {
      assert.equal((await api.call('GET', `${path}?wait_s=${wait}`)).status, 400, wait);
    }
  });

  it('hides operations of others however long one waits', async () => {
    const { project_id } = await createProject();
    const other = await createProject();
    const operation = await changeRetention(other.project_id, 1000);
    assert.equal((await api.call('GET', `/projects/${project_id}/operations/${operation.id}?wait_s=60`)).status, 404);
  });

  it('misses nothing while changes cannot be heard', WOKEN, async () => {
    const { project_id } = await createProject();
    const operation = await changeRetention(project_id, 1000);
    const asked = api.call('GET', `/projects/${project_id}/operations/${operation.id}?wait_s=60`);
    await lookedOnce();
    await api.store.pool.query(
      "select pg_terminate_backend(pid, 10000) from pg_stat_activity where application_name = 'coppice listen'",
    );
    await setStatus([operation], 'finished');
    assert.equal((await asked).body.operation.status, 'finished');
  });

  it('ends when the client leaves or the server stops, and takes no more than it can hold', async () => {
    const { project_id } = await createProject();
    const { id } = await changeRetention(project_id, 1000);
    const waits = new OperationWaits(api.context.store, createChangeWatch(), 2);
    const gone = new AbortController();
    const first = waits.untilEnded([id], { timeout_ms: 60_000, gone: gone.signal });
    const second = waits.untilEnded([id], { timeout_ms: 60_000, gone: new AbortController().signal });
    await assert.rejects(waits.untilEnded([id], { timeout_ms: 60_000, gone: gone.signal }), {
      kind: 'waits_exceeded',
      status: 503,
    });
    gone.abort();
    assert.equal((await first)[0]!.status, 'running');
    assert.equal(waits.full, false);
    waits.close();
    assert.equal((await second)[0]!.status, 'running');
  });

  it('lets a server stop at once, and answers those who wait', WOKEN, async () => {
    const other = await startSecondApi(api);
    const { project_id } = await createProject();
    const operation = await changeRetention(project_id, 1000);
    await other.app.listen({ host: '127.0.0.1', port: 0 });
    const { port } = other.app.server.address() as AddressInfo;
    let arrived = 0;
    other.app.server.on('request', () => {
      arrived += 1;
    });
    const asked = fetch(`http://127.0.0.1:${port}/api/v2/projects/${project_id}/operations/${operation.id}?wait_s=60`, {
      headers: { authorization: `Bearer ${other.key}` },
    });
    const answered = asked.then(async (response) => [response.status, (await response.json()).operation.status]);
    await Promise.all([answered, until(() => arrived > 0, { what: 'the request' }).then(() => other.close())]);
    assert.deepEqual(await answered, [200, 'running']);
  });

  describe('with a change', () => {
    const startsEndpoint = async () => {
      const { project_id, endpoint_id } = await createProject();
      return { project_id, endpoint_id, path: `/projects/${project_id}/endpoints/${endpoint_id}/start` };
    };

    it('answers when the operations that it started have ended, and with what came of them', WOKEN, async () => {
      const { project_id, endpoint_id, path } = await startsEndpoint();
      const asked = ask(api.call('POST', path, { headers: { prefer: 'respond-async, wait=60' } }));
      await until(async () => (await unfinished(project_id)).length > 0, { what: 'the operation' });
      await lookedOnce();
      assert.equal(asked.answered, false);
      await observeEndpoint(api, endpoint_id, 'running');
      await setStatus(await unfinished(project_id), 'finished');
      const { status, headers, body } = await asked.answer;
      assert.deepEqual([status, headers['preference-applied']], [200, 'wait=60']);
      assert.deepEqual(
        [body.operations[0].status, body.endpoint.current_state, 'pending_state' in body.endpoint],
        ['finished', 'active', false],
      );
    });

    it('answers with the branch that was made, once it is there', WOKEN, async () => {
      const { project_id } = await createProject();
      const body = { endpoints: [{ type: 'read_write' }] };
      const asked = api.call('POST', `/projects/${project_id}/branches`, { body, headers: { Prefer: 'wait="60"' } });
      await until(async () => (await unfinished(project_id)).length === 2, { what: 'the operations' });
      await finishOperations(api, project_id);
      const answer = await asked;
      assert.equal(answer.status, 201);
      assert.deepEqual([answer.body.branch.current_state, 'pending_state' in answer.body.branch], ['ready', false]);
      assert.equal(answer.body.endpoints.length, 1);
      assert.equal(answer.body.connection_uris.length, 1);
    });

    it('answers when the time is over; a wait that makes no sense is none', async () => {
      const { project_id, path } = await startsEndpoint();
      const late = await api.call('POST', path, { headers: { prefer: 'wait=1' } });
      assert.deepEqual([late.headers['preference-applied'], late.body.operations[0].status], ['wait=1', 'running']);
      await setStatus(await unfinished(project_id), 'finished');
      for (const prefer of ['wait', 'wait=', 'wait=soon', 'await=60', 'respond-async', 'wait=-1']) {
        const answer = await api.call('POST', path, { headers: { prefer } });
        assert.deepEqual([answer.status, answer.headers['preference-applied']], [200, undefined], prefer);
        await setStatus(await unfinished(project_id), 'finished');
      }
    });

    it('waits no longer than a minute, and not at all where nothing was started', async () => {
      const { project_id } = await createProject();
      const body = { project: { name: 'another name' } };
      const answer = await api.call('PATCH', `/projects/${project_id}`, { body, headers: { prefer: 'wait=3600' } });
      assert.deepEqual([answer.headers['preference-applied'], answer.body.operations], ['wait=60', []]);
    });
  });
});
