import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { forgetIdempotencyKeys } from '../../src/store/idempotency-keys.ts';
import { addCallers } from '../support/api-callers.ts';
import { startSecondApi, startTestApi, type TestApi } from '../support/api-server.ts';
import { createSleepingProject, type TestProject } from '../support/project.ts';

describe('a POST with an Idempotency-Key', () => {
  let api: TestApi;
  let other: TestApi;
  let project: TestProject;
  before(async () => {
    api = await startTestApi();
    other = await startSecondApi(api);
    project = await createSleepingProject(api);
  });
  after(async () => {
    await other?.close();
    await api?.close();
  });

  let made = 0;
  const newKey = () => {
    made += 1;
    return `key-${made}`;
  };
  const post = (path: string, idempotency_key: string, body?: unknown, { at = api, key = api.key } = {}) =>
    at.call('POST', path, { body, key, headers: { 'idempotency-key': idempotency_key } });
  const branches = () => `/projects/${project.id}/branches`;
  const count = async (table: 'branches' | 'projects' | 'api_keys' | 'idempotency_keys') =>
    (await api.store.pool.query(`select count(*) as count from coppice.${table}`)).rows[0].count as number;

  it('is answered the same again, in every process, and done once', async () => {
    const [key, body] = [newKey(), { endpoints: [{ type: 'read_write' }] }];
    const first = await post(branches(), key, body);
    assert.deepEqual([first.status, first.headers['idempotency-replayed']], [201, undefined]);
    const before = await count('branches');
    for (const at of [api, other]) {
      const again = await post(branches(), key, body, { at });
      assert.deepEqual([again.status, again.headers['idempotency-replayed']], [201, 'true']);
      assert.deepEqual(again.body, first.body);
    }
    assert.equal(await count('branches'), before);
  });

  it('is done once when it comes many times at once, in several processes', async () => {
    const [key, body] = [newKey(), { branch: { name: 'many' } }];
    const before = await count('branches');
    const answers = await Promise.all(
      [api, other, api, other, api, other].map((at) => post(branches(), key, body, { at })),
    );
    assert.deepEqual(new Set(answers.map(({ status }) => status)), new Set([201]));
    assert.equal(new Set(answers.map((answer) => answer.body.branch.id)).size, 1);
    assert.equal(answers.filter(({ headers }) => headers['idempotency-replayed'] === undefined).length, 1);
    assert.equal(await count('branches'), before + 1);
  });

  it('tells secrets again, and keeps them where nobody can read them in the store', async () => {
    const key = newKey();
    const first = await post('/api_keys', key, { key_name: 'a key' });
    const again = await post('/api_keys', key, { key_name: 'a key' });
    assert.equal(first.status, 200);
    assert.equal(again.body.key, first.body.key);
    const { rows } = await api.store.pool.query('select * from coppice.idempotency_keys');
    assert.ok(rows.length > 0);
    assert.equal(JSON.stringify(rows.map((row) => String(row.sealed_answer))).includes(first.body.key), false);
  });

  it('is refused when something else is asked for under the same key', async () => {
    const key = newKey();
    assert.equal((await post(branches(), key, { branch: { name: 'one' } })).status, 201);
    const before = await count('branches');
    for (const [path, body] of [
      [branches(), { branch: { name: 'two' } }],
      [branches(), undefined],
      ['/projects', { project: {} }],
    ] as const) {
      const answer = await post(path, key, body);
      assert.deepEqual([answer.status, /another request/.test(answer.body.message)], [422, true]);
    }
    assert.equal(await count('branches'), before);
  });

  it('is of the caller alone', async () => {
    const key = newKey();
    const { body } = await api.call('GET', `/projects/${project.id}`);
    const callers = await addCallers(api, { id: project.id, org_id: body.project.org_id }, project.id);
    const first = await post(branches(), key, {});
    const second = await post(branches(), key, {}, { key: callers.member });
    assert.equal(second.status, 201);
    assert.notEqual(second.body.branch.id, first.body.branch.id);
    const outsider = await post(branches(), key, {}, { key: callers.outsider });
    assert.equal(outsider.status, 404);
  });

  it('that was refused keeps nothing, and may succeed the next time', async () => {
    const key = newKey();
    const [before, keys_before] = [await count('branches'), await count('idempotency_keys')];
    assert.equal((await post(branches(), key, { branch: { parent_id: 'br-unknown-branch-12345678' } })).status, 404);
    assert.equal((await post(branches(), key, { branch: { name: '' } })).status, 400);
    assert.deepEqual([await count('branches'), await count('idempotency_keys')], [before, keys_before]);
    assert.equal((await post(branches(), key, {})).status, 201);
  });

  it('waits, too, for what it began, each time it comes', async () => {
    const key = newKey();
    const send = () =>
      api.call('POST', branches(), { body: {}, headers: { 'idempotency-key': key, prefer: 'wait=0' } });
    const [first, again] = [await send(), await send()];
    assert.equal(first.headers['preference-applied'], 'wait=0');
    assert.equal(again.headers['preference-applied'], 'wait=0');
    assert.equal(again.body.operations[0].id, first.body.operations[0].id);
  });

  it('is new after a day, and forgotten then', async () => {
    const key = newKey();
    const first = await post(branches(), key, {});
    const age = (hours: number) =>
      api.store.pool.query(
        `update coppice.idempotency_keys set created_at = now() - $1 * interval '1 hour' where key = $2`,
        [hours, key],
      );
    await age(23);
    assert.equal((await post(branches(), key, {})).body.branch.id, first.body.branch.id);
    await age(25);
    assert.notEqual((await post(branches(), key, {})).body.branch.id, first.body.branch.id);
    await age(25);
    const before = await count('idempotency_keys');
    await forgetIdempotencyKeys(api.store.store, new Date(Date.now() - 24 * 3_600_000), 100);
    assert.equal(await count('idempotency_keys'), before - 1);
  });

  it('takes keys that fit into a header, and so many of a caller', async () => {
    for (const key of ['', 'a b', 'x'.repeat(256)]) {
      assert.equal((await post(branches(), key, {})).status, 400, JSON.stringify(key));
    }
    await api.store.pool.query(
      `insert into coppice.idempotency_keys (api_key_id, key, request_hash)
       select api_keys.id, 'filler-' || number, '' from coppice.api_keys, generate_series(1, 10000) number
       where api_keys.kind = 'personal' and name = 'bootstrap'`,
    );
    const before = await count('branches');
    const refused = await post(branches(), newKey(), {});
    assert.deepEqual([refused.status, refused.body.code], [422, 'IDEMPOTENCY_KEYS_LIMIT_EXCEEDED']);
    assert.equal(await count('branches'), before);
    await api.store.pool.query(`delete from coppice.idempotency_keys where key like 'filler-%'`);
  });
});
