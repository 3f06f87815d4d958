import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, describe, it } from 'node:test';
import { cancelUnfinished } from '../../src/store/calls.ts';
import { beginNextOperation, takeCall } from '../../src/store/runs.ts';
import { startTestApi, type TestApi } from '../support/api-server.ts';
import { createSleepingProject, type TestProject } from '../support/project.ts';
import { until } from '../support/until.ts';

describe('what is cancelled at the moment in which a worker begins it', () => {
  let api: TestApi;
  let project: TestProject;
  before(async () => {
    api = await startTestApi();
    project = await createSleepingProject(api);
  });
  after(() => api?.close());

  it('stays cancelled, and the rest of its call goes on', async () => {
    const { store } = api.context;
    const { body } = await api.call('PATCH', `/projects/${project.id}`, {
      body: { project: { history_retention_seconds: 7200 } },
    });
    const [first] = body.operations;
    const { call_id } = await store
      .selectFrom('operations')
      .select('call_id')
      .where('id', '=', first.id)
      .executeTakeFirstOrThrow();
    const { rows } = await api.store.pool.query(
      `insert into coppice.operations (id, call_id, position, project_id, endpoint_id, action, claims_exclusive, claims_shared, status)
       values ($1, $2, 1, $3, null, 'apply_storage_config', '{}', '{}', 'scheduling') returning id`,
      [randomUUID(), call_id, project.id],
    );
    await api.store.pool.query('update coppice.operations set endpoint_id = $1 where id = $2', [
      project.endpoint_id,
      first.id,
    ]);
    assert.equal(await takeCall(store, call_id, 'a worker'), true);

    // The worker looks for what to do while the one who cancels has not committed yet.
    const { promise: mayCommit, resolve: commit } = Promise.withResolvers<void>();
    const { promise: cancelled, resolve: isCancelled } = Promise.withResolvers<void>();
    const cancelling = store.transaction().execute(async (trx) => {
      await cancelUnfinished(trx, { endpoint_id: project.endpoint_id });
      isCancelled();
      await mayCommit;
    });
    await cancelled;
    const begun = beginNextOperation(store, call_id);
    await until(
      async () => {
        const waiting = await api.store.pool.query(`select from pg_stat_activity where wait_event_type = 'Lock'`);
        return waiting.rowCount !== 0;
      },
      { what: 'the worker to wait' },
    );
    commit();
    await cancelling;
    assert.equal((await begun)?.id, rows[0].id);
    const { status } = (await api.call('GET', `/projects/${project.id}/operations/${first.id}`)).body.operation;
    assert.equal(status, 'cancelled');
  });
});
