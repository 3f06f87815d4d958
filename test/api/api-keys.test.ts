import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { startTestApi, type TestApi } from '../support/api-server.ts';

describe('personal API keys', () => {
  let api: TestApi;
  before(async () => {
    api = await startTestApi();
  });
  after(() => api?.close());

  const create = async (key_name: string) => (await api.call('POST', '/api_keys', { body: { key_name } })).body;

  it('tells the secret once, with status 200 and without a project', async () => {
    const { status, body } = await api.call('POST', '/api_keys', { body: { key_name: 'ci' } });
    assert.equal(status, 200);
    assert.match(body.key, /^napi_[0-9a-f]{64}$/);
    assert.equal('project_id' in body, false);
    const list = await api.call('GET', '/api_keys');
    const listed = list.body.find((key: { id: number }) => key.id === body.id);
    assert.equal(listed.name, 'ci');
    assert.equal(listed.created_by.name, 'owner@example.test');
    assert.equal(JSON.stringify(list.body).includes(body.key), false);
  });

  it('lets a key in until it is revoked, and never again', async () => {
    const made = await create('short-lived');
    assert.equal((await api.call('GET', '/users/me', { key: made.key })).status, 200);
    const revoked = await api.call('DELETE', `/api_keys/${made.id}`);
    assert.equal(revoked.body.revoked, true);
    assert.equal(revoked.body.id, made.id);
    const refused = await api.call('GET', '/users/me', { key: made.key });
    assert.equal(refused.status, 401);
    assert.equal(refused.body.message, 'supplied credentials do not pass authentication');
    assert.equal((await api.call('DELETE', `/api_keys/${made.id}`)).status, 404);
  });

  it('refuses every request that begins after the revocation was answered, whatever is in flight', async () => {
    const made = await create('busy');
    let revoked = false;
    let late = 0;
    const caller = async () => {
      for (let count = 0; count < 1000; count += 1) {
        const after_revocation = revoked;
        const { status } = await api.call('GET', '/auth', { key: made.key });
        if (status === 401) return;
        if (after_revocation) late += 1;
      }
      assert.fail('the key was never refused');
    };
    const callers = Array.from({ length: 20 }, caller);
    await api.call('DELETE', `/api_keys/${made.id}`);
    revoked = true;
    await Promise.all(callers);
    assert.equal(late, 0);
  });

  it('keeps no secret in the store or the log', async () => {
    const made = await create('secretive');
    await api.call('GET', '/auth', { key: made.key });
    const { rows } = await api.store.pool.query('select row_to_json(k)::text as text from coppice.api_keys k');
    for (const { text } of rows) assert.equal(text.includes(made.key), false);
    assert.equal(
      api.log.some((line) => line.includes(made.key)),
      false,
    );
  });

  it('answers the same whatever is wrong with the credentials', async () => {
    const wrong = [
      { key: null },
      { key: 'napi_unknown' },
      { key: '' },
      { key: null, headers: { authorization: api.key } },
      { key: null, headers: { authorization: `Basic ${api.key}` } },
      { key: `${api.key} ${api.key}` },
      { key: 'x'.repeat(5000) },
    ];
    for (const options of wrong) {
      const { status, body } = await api.call('GET', '/users/me', options);
      assert.equal(status, 401);
      assert.deepEqual(
        { ...body, request_id: '' },
        { request_id: '', code: '', message: 'supplied credentials do not pass authentication' },
      );
    }
  });

  it('records when a key was used last', async () => {
    const made = await create('used');
    await api.call('GET', '/auth', { key: made.key });
    await api.app.close();
    const { rows } = await api.store.pool.query(
      'select last_used_at, last_used_from_addr from coppice.api_keys where id = $1',
      [made.id],
    );
    assert.ok(rows[0].last_used_at instanceof Date);
    assert.equal(rows[0].last_used_from_addr, '127.0.0.1');
  });
});
