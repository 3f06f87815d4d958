import assert from 'node:assert/strict';
import { after, before, beforeEach, describe, it } from 'node:test';
import { ensureStart } from '../../src/actions/start-endpoint.ts';
import { observeMaskingFailed } from '../../src/store/branch-maskings.ts';
import { startTestApi, type TestApi } from '../support/api-server.ts';
import { createSleepingProject, finishOperations, type TestProject } from '../support/project.ts';
import { untilEventsShow } from '../support/until-events-show.ts';

const place = { database_name: 'neondb', schema_name: 'public', table_name: 'users' };
const RULES = [
  { ...place, column_name: 'email', masking_function: 'anon.fake_email()' },
  { ...place, column_name: 'name', masking_value: 'somebody' },
];
const PRIVATE = /^branch is private until it is anonymized; branch_id:"[^"]+", state:"initialized"$/;

const actions = (body: { operations: { action: string }[] }) => body.operations.map(({ action }) => action);

describe('anonymized branches', () => {
  let api: TestApi;
  let project: TestProject;
  before(async () => {
    api = await startTestApi();
  });
  beforeEach(async () => {
    project = await createSleepingProject(api);
  });
  after(() => api?.close());

  const path = (rest: string) => `/projects/${project.id}${rest}`;
  const create = async (body: object = {}) => {
    const answer = await api.call('POST', path('/branch_anonymized'), {
      body: { branch_create: { endpoints: [{ type: 'read_write' }] }, masking_rules: RULES, ...body },
    });
    assert.equal(answer.status, 201, answer.body.message);
    return answer.body;
  };
  const initialized = async () => {
    const made = await create();
    await finishOperations(api, project.id);
    return { id: made.branch.id as string, endpoint_id: made.endpoints[0].id as string };
  };
  const on = (id: string, rest = '') => path(`/branches/${id}${rest}`);
  const status = async (id: string) => (await api.call('GET', on(id, '/anonymized_status'))).body;
  const anonymize = (id: string) => api.call('POST', on(id, '/anonymize'));
  const anonymized = async () => {
    const made = await initialized();
    assert.equal((await anonymize(made.id)).status, 200);
    await finishOperations(api, project.id);
    return made;
  };
  const unfinished = async () =>
    (await api.call('GET', path('/operations'))).body.operations
      .filter((operation: { status: string }) => operation.status !== 'finished')
      .map(({ action }: { action: string }) => action)
      .reverse();

  it('wait for their masking, with what they were asked to be', async () => {
    const body = await create({ annotation_value: { team: 'a' } });
    assert.deepEqual(actions(body), ['create_branch']);
    assert.equal(body.branch.parent_id, project.branch_id);
    assert.equal(body.connection_uris.length, 1);
    assert.equal((await status(body.branch.id)).state, 'created');
    await finishOperations(api, project.id);
    const shown = await status(body.branch.id);
    assert.deepEqual([shown.state, shown.last_run, shown.failed_at], ['initialized', undefined, undefined]);
    const { body: branch } = await api.call('GET', on(body.branch.id));
    assert.equal(branch.branch.current_state, 'init');
    assert.deepEqual(branch.annotation.value, { team: 'a', anonymized: 'true' });
    const { body: list } = await api.call('GET', path('/branches'));
    assert.equal(list.annotations[body.branch.id].value.anonymized, 'true');
    assert.deepEqual((await api.call('GET', on(body.branch.id, '/masking_rules'))).body, { masking_rules: RULES });
  });

  it('are masked at once where that is asked for, and start then', async () => {
    const body = await create({ start_anonymization: true });
    assert.deepEqual(actions(body), ['create_branch', 'import_data', 'start_compute']);
    await finishOperations(api, project.id);
    const { state, last_run } = await status(body.branch.id);
    assert.equal(state, 'anonymized');
    assert.equal(last_run.masked_columns, 1);
    assert.match(last_run.triggered_by, /^[0-9a-f-]{36}$/);
    assert.ok(last_run.started_at && last_run.completed_at && last_run.triggered_by_username);
  });

  it('are nobody’s to use before', async () => {
    const { id, endpoint_id } = await initialized();
    const refused: [string, string, object?][] = [
      ['POST', path(`/endpoints/${endpoint_id}/start`)],
      ['POST', path('/endpoints'), { endpoint: { branch_id: id, type: 'read_only' } }],
      ['PATCH', path(`/endpoints/${endpoint_id}`), { endpoint: { autoscaling_limit_max_cu: 2 } }],
      ['PATCH', path(`/endpoints/${project.endpoint_id}`), { endpoint: { branch_id: id } }],
      ['POST', path('/branches'), { branch: { parent_id: id } }],
      ['POST', path('/branch_anonymized'), { branch_create: { branch: { parent_id: id } } }],
      ['POST', on(project.branch_id, '/restore'), { source_branch_id: id, preserve_under_name: 'before' }],
      ['POST', on(id, '/restore'), { source_branch_id: project.branch_id }],
      ['GET', on(id, '/schema?db_name=neondb')],
      ['POST', on(id, '/roles'), { role: { name: 'somebody' } }],
    ];
    for (const [method, at, body] of refused) {
      const answer = await api.call(method, at, { body });
      // It cannot be had by way of another endpoint, even where that has one already.
      if (answer.body.code === 'ENDPOINTS_LIMIT_EXCEEDED') continue;
      assert.equal(answer.status, 422, `${method} ${at}: ${answer.status}`);
      assert.match(answer.body.message, PRIVATE, `${method} ${at}`);
    }
    // Whoever connects gets no further than whoever calls.
    await assert.rejects(ensureStart(api.context, endpoint_id), { message: PRIVATE });
    assert.deepEqual(await unfinished(), []);
    assert.equal((await anonymize(id)).status, 200);
    const meanwhile = await api.call('POST', path('/branches'), { body: { branch: { parent_id: id } } });
    assert.equal(meanwhile.status, 423);
    assert.match(meanwhile.body.message, /^branch is being anonymized/);
  });

  it('are masked once at a time, and have the same rules meanwhile', async () => {
    const { id } = await initialized();
    const first = await anonymize(id);
    assert.equal(first.body.state, 'anonymizing');
    assert.deepEqual(await unfinished(), ['import_data', 'start_compute']);
    assert.equal((await anonymize(id)).status, 423);
    const change = { body: { masking_rules: [] } };
    assert.equal((await api.call('PATCH', on(id, '/masking_rules'), change)).status, 423);
    await finishOperations(api, project.id);
    assert.equal((await api.call('PATCH', on(id, '/masking_rules'), change)).status, 200);
    assert.deepEqual((await api.call('GET', on(id, '/masking_rules'))).body, { masking_rules: [] });
  });

  it('stay private when masking fails, say why, and are tried again', async () => {
    const { id, endpoint_id } = await initialized();
    await anonymize(id);
    const { store } = api.context;
    await store.transaction().execute((trx) => observeMaskingFailed(trx, id, 'a reason'));
    await store.updateTable('operations').set({ status: 'failed' }).where('branch_id', '=', id).execute();
    await store.updateTable('calls').set({ finished_at: new Date() }).execute();
    const shown = await status(id);
    assert.deepEqual([shown.state, shown.status_message], ['error', 'a reason']);
    assert.ok(shown.failed_at && shown.last_run.completed_at);
    await assert.rejects(ensureStart(api.context, endpoint_id), /private.*state:"error"/);
    assert.equal((await anonymize(id)).status, 200);
    await finishOperations(api, project.id);
    assert.equal((await status(id)).state, 'anonymized');
  });

  it('are branches like others when they are masked', async () => {
    const { id } = await anonymized();
    const child = await api.call('POST', path('/branches'), { body: { branch: { parent_id: id } } });
    assert.equal(child.status, 201, child.body.message);
    assert.equal((await api.call('GET', on(child.body.branch.id, '/anonymized_status'))).status, 404);
  });

  it('are masked anew in the place of what they were, which goes when that is done', async () => {
    const { id } = await anonymized();
    assert.equal((await anonymize(id)).body.state, 'anonymizing');
    assert.deepEqual(await unfinished(), [
      ...['suspend_compute', 'create_branch', 'import_data', 'start_compute', 'delete_timeline'],
    ]);
    const { body } = await api.call('POST', path('/branches'), { body: { branch: { parent_id: id } } });
    assert.match(body.message, /^branch is being anonymized/);
    await finishOperations(api, project.id);
    assert.equal((await status(id)).state, 'anonymized');
    assert.equal((await api.call('GET', on(id))).body.branch.current_state, 'ready');
  });

  it('do not become what another branch is', async () => {
    const { id } = await anonymized();
    const answer = await api.call('POST', on(id, '/restore'), { body: { source_branch_id: project.branch_id } });
    assert.deepEqual([answer.status, /^an anonymized branch cannot become/.test(answer.body.message)], [422, true]);
    const { body } = await api.call('POST', on(project.branch_id, '/snapshot'), { body: { name: 'raw' } });
    await finishOperations(api, project.id);
    const restore = await api.call('POST', path(`/snapshots/${body.snapshot.id}/restore`), {
      body: { target_branch_id: id, finalize_restore: true },
    });
    assert.equal(restore.status, 422);
  });

  it('are deleted, masked or not', async () => {
    const before = await initialized();
    assert.equal((await api.call('DELETE', on(before.id))).status, 200);
    const after = await anonymized();
    await anonymize(after.id);
    const { body } = await api.call('DELETE', on(after.id));
    assert.deepEqual(
      actions(body).filter((action) => action === 'delete_timeline'),
      ['delete_timeline', 'delete_timeline'],
    );
    assert.equal((await api.call('GET', on(after.id, '/anonymized_status'))).status, 404);
  });

  it('are refused with a rule that cannot hold, which is named', async () => {
    const wrong = [{ ...RULES[0], masking_function: 'anon.rm_rf()' }];
    const answer = await api.call('POST', path('/branch_anonymized'), { body: { masking_rules: wrong } });
    assert.equal(answer.status, 400);
    assert.match(answer.body.message, /rule:"neondb\.public\.users\.email", problem:"there is no masking function/);
    const { id } = await initialized();
    const change = await api.call('PATCH', on(id, '/masking_rules'), { body: { masking_rules: [...RULES, RULES[0]] } });
    assert.match(change.body.message, /has a rule already/);
    assert.equal((await api.call('GET', on(id, '/masking_rules'))).body.masking_rules.length, 2);
  });

  it('cannot be made of nothing, or straight into the archive', async () => {
    for (const branch of [{ init_source: 'schema-only' }, { archived: true }]) {
      const { status } = await api.call('POST', path('/branch_anonymized'), { body: { branch_create: { branch } } });
      assert.equal(status, 501);
    }
  });

  it('are told from others, which have no masking', async () => {
    for (const [method, rest, body] of [
      ['GET', '/masking_rules'],
      ['PATCH', '/masking_rules', { masking_rules: [] }],
      ['GET', '/anonymized_status'],
      ['POST', '/anonymize'],
    ] as const) {
      const answer = await api.call(method, on(project.branch_id, rest), { body });
      assert.deepEqual([answer.status, answer.body.message], [404, 'anonymization of this branch is not enabled']);
    }
  });

  it('tell followers how far they are', async () => {
    const { id } = await anonymized();
    await untilEventsShow(api);
    const { body } = await api.call('GET', `/events?project_id=${project.id}&limit=1000`);
    const states = body.events
      .filter((event: { subject_id: string }) => event.subject_id === id)
      .flatMap(({ data }: { data: Record<string, string> }) => data.anonymized_state ?? []);
    assert.deepEqual(states, ['initialized', 'anonymizing', 'anonymized']);
  });
});
