import assert from 'node:assert/strict';
import { after, before, beforeEach, describe, it, mock } from 'node:test';
import { createRateLimits } from '../../src/api/rate-limits.ts';
import { startTestApi, type TestApi } from '../support/api-server.ts';

describe('limits of how often a key may call', () => {
  let api: TestApi;
  let now_ms = 1_000_000;
  let clock: { mock: { restore(): void } };
  before(async () => {
    api = await startTestApi({ rate_limits: { per_minute: 6, group_per_second: 2 } });
    clock = mock.method(performance, 'now', () => now_ms);
  });
  after(async () => {
    clock?.mock.restore();
    await api?.close();
  });
  beforeEach(() => {
    now_ms += 3_600_000;
  });

  const get = (path: string, key?: string | null) => api.call('GET', path, { key });

  it('refuse the next request with 429, and say when to come again and what is left', async () => {
    const first = await get('/auth');
    assert.equal(first.status, 200);
    assert.equal(first.headers['ratelimit-policy'], '"key";q=6;w=60, "group";q=2;w=1');
    assert.equal(first.headers.ratelimit, '"key";r=5;t=10, "group";r=1;t=1');
    await get('/auth');
    const refused = await get('/auth');
    assert.equal(refused.status, 429);
    assert.equal(refused.headers['retry-after'], '1');
    assert.match(refused.body.message, /^too many requests with this API key; limit:"2 in 1 s"$/);
    now_ms += 1000;
    assert.equal((await get('/auth')).status, 200);
  });

  it('hold for each group of routes, and for all of them together', async () => {
    for (const path of ['/auth', '/auth', '/users/me', '/users/me', '/regions', '/regions']) {
      assert.equal((await get(path)).status, 200, path);
    }
    const refused = await get('/users/me/organizations');
    assert.equal(refused.status, 429);
    assert.equal(refused.headers['retry-after'], '10');
    now_ms += 10_000;
    assert.equal((await get('/users/me/organizations')).status, 200);
  });

  it('hold for each key by itself, and before anybody is asked whether it is one', async () => {
    for (const path of ['/auth', '/auth']) await get(path);
    assert.equal((await get('/auth')).status, 429);
    const answers = [];
    for (let count = 0; count < 3; count++) answers.push((await get('/auth', 'napi_of_nobody')).status);
    assert.deepEqual(answers, [401, 401, 429]);
  });

  it('are not there unless they are set', () => {
    assert.equal(createRateLimits({ per_minute: 0, group_per_second: 0 }), undefined);
  });
});
