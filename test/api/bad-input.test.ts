import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import type { Route } from '../../src/api/route.ts';
import { ROUTES } from '../../src/api/routes.ts';
import { startTestApi, type TestApi } from '../support/api-server.ts';
import { type ExampleIds, exampleBody, examplePath, exampleQuery } from '../support/request-examples.ts';
import { type Json, placesIn, replacedIn, wrongTypes } from '../support/schema-values.ts';

const nameOf = (route: Route) => `${route.method} ${route.path}`;

describe('bad input', () => {
  let api: TestApi;
  let ids: ExampleIds;
  before(async () => {
    api = await startTestApi();
    const { body } = await api.call('POST', '/projects', { body: { project: {} } });
    await api.store.pool.query('update coppice.timelines set ready_at = now()');
    const { project, branch, endpoints } = body;
    ids = { project_id: project.id, branch_id: branch.id, endpoint_id: endpoints[0].id, org_id: project.org_id };
  });
  after(() => api?.close());

  const send = (route: Route, text: string | undefined, type = 'application/json') =>
    api.call(route.method, examplePath(route, ids) + exampleQuery(route, ids), {
      body: text,
      headers: text === undefined ? {} : { 'content-type': type },
    });
  const call = (route: Route, body: Json | undefined) => send(route, JSON.stringify(body));

  const withBody = ROUTES.filter((route) => route.schema.body);
  const mayLackBody = new Set([
    'POST /projects/:project_id/branches',
    'POST /projects/:project_id/branches/:branch_id/renew_lease',
    'POST /projects/:project_id/branches/:branch_id/snapshot',
    'POST /projects/:project_id/snapshots/:snapshot_id/restore',
    'POST /projects/:project_id/branches/:branch_id/finalize_restore',
    'POST /projects/:project_id/transfer_requests',
    'PUT /projects/:project_id/transfer_requests/:request_id',
  ]);

  for (const route of withBody) {
    it(`in the body of ${nameOf(route)} is refused, wherever it is`, async () => {
      const body = exampleBody(route, ids) as Json;
      for (const { path, value } of placesIn(body)) {
        for (const wrong of wrongTypes(value)) {
          const answer = await call(route, replacedIn(body, path, wrong));
          const what = `${path.join('.')} = ${JSON.stringify(wrong)}: ${JSON.stringify(answer.body)}`;
          assert.equal(answer.status, 400, what);
          assert.match(answer.body.message, /^invalid request; field:".+", problem:".+"$/, what);
        }
      }
      if (!mayLackBody.has(nameOf(route))) assert.equal((await call(route, undefined)).status, 400);
    });

    it(`that is no JSON is refused by ${nameOf(route)}`, async () => {
      for (const text of ['{', '{"a":1,}', 'nonsense', '\u0000', '{"a":"\\ud83"}', '{"__proto__":{"a":1}}']) {
        const answer = await send(route, text);
        assert.deepEqual([answer.status, answer.body.message], [400, 'the request body is not valid JSON'], text);
      }
      for (const type of ['text/plain', 'application/x-www-form-urlencoded', 'application/jsonx', 'nonsense']) {
        const answer = await send(route, '{}', type);
        assert.equal(answer.status, 415, type);
        assert.match(answer.body.message, /must be application\/json/);
      }
      const large = await call(route, { padding: 'x'.repeat(10 * 1024 ** 2) });
      assert.equal(large.status, 413);
      const zero = await send(route, JSON.stringify(exampleBody(route, ids)).replace('"', '"\\u0000'));
      assert.equal(zero.status, 400);
    });
  }

  for (const route of withBody) {
    it(`in the names that ${nameOf(route)} takes is told from what is only unusual`, async () => {
      const body = exampleBody(route, ids) as Json;
      const names = placesIn(body).filter(
        ({ path, value }) => typeof value === 'string' && /(^|_)name$/.test(String(path.at(-1))),
      );
      for (const { path } of names) {
        const none = path.at(-1) === 'preserve_under_name' ? [] : [''];
        for (const bad of [...none, 'x'.repeat(257), '🌲'.repeat(257)]) {
          assert.equal(
            (await call(route, replacedIn(body, path, bad))).status,
            400,
            `${path.join('.')}: ${bad.length}`,
          );
        }
        if (/owner_name|database_name|role_name/.test(String(path.at(-1)))) continue;
        for (const [index, good] of ['🌲 "quoted" \'too\'', 'a/b\\c;drop', '<b>&amp;', 'ünïcödé'].entries()) {
          const answer = await call(route, replacedIn(body, path, good));
          assert.notEqual(answer.status, 400, `${path.join('.')} ${index}: ${JSON.stringify(answer.body)}`);
        }
      }
    });
  }

  for (const route of ROUTES.filter(({ path }) => path.includes(':'))) {
    it(`in the path of ${nameOf(route)} is not found`, async () => {
      const example = examplePath(route, ids);
      const values = example.split('/').slice(1);
      for (const [index, part] of route.path.split('/').slice(1).entries()) {
        if (!part.startsWith(':')) continue;
        for (const bad of [
          'UPPER',
          'x'.repeat(61),
          'a%00b',
          '%F0%9F%8C%B2',
          "'%20or%201=1--",
          'a%2Fb',
          '..%2F..',
          '%zz',
          '',
        ]) {
          const path = `/${values.toSpliced(index, 1, bad).join('/')}`;
          const { status, body } = await api.call(route.method, path + exampleQuery(route, ids), {
            body: exampleBody(route, ids),
          });
          // Deleting what is not there is done already; what is not available is so whatever it is called.
          assert.ok([400, 404, 405, 204, 501].includes(status), `${path}: ${status} ${JSON.stringify(body)}`);
        }
      }
    });
  }

  for (const route of ROUTES.filter(({ schema }) => schema.querystring)) {
    const { properties } = route.schema.querystring as unknown as {
      properties: Record<string, { type?: string; enum?: string[]; format?: string; anyOf?: unknown }>;
    };
    for (const [name, schema] of Object.entries(properties)) {
      const typed = schema.type === 'integer' || schema.type === 'boolean' || schema.enum || schema.format;
      const bad = typed ? ['', 'x', '1.5', '-1', '1e2', '0x10', '99999999999999999999', 'null', '{}'] : [];
      it(`as ${name} in the query of ${nameOf(route)} is refused`, async () => {
        const query = exampleQuery(route, ids);
        const path = `${examplePath(route, ids)}${query}${query ? '&' : '?'}`;
        for (const value of bad) {
          const answer = await api.call(route.method, `${path}${name}=${encodeURIComponent(value)}`);
          assert.equal(answer.status, 400, `${name}=${value}: ${JSON.stringify(answer.body)}`);
        }
        // Lists may be repeated.
        const twice = await api.call(route.method, `${path}${name}=1&${name}=1`);
        if (!schema.anyOf) assert.equal(twice.status, 400, `${name} twice: ${JSON.stringify(twice.body)}`);
        const zero = await api.call(route.method, `${path}${name}=%00`);
        assert.equal(zero.status, 400);
        for (const odd of ['%25', "'", '🌲', 'x'.repeat(5000)]) {
          const { status } = await api.call(route.method, `${path}${name}=${encodeURIComponent(odd)}`);
          assert.ok([200, 400, 404].includes(status), `${name}=${odd}: ${status}`);
        }
      });
    }
  }

  it('as a size or a time is refused with what is allowed', async () => {
    const endpoint = { branch_id: ids.branch_id, type: 'read_write' };
    const bad = [
      ...[0, 0.3, 0.26, -1, 17, 57, 58, 1e300].map((size) => ({
        autoscaling_limit_min_cu: size,
        autoscaling_limit_max_cu: size,
      })),
      { autoscaling_limit_min_cu: 2, autoscaling_limit_max_cu: 1 },
      { autoscaling_limit_min_cu: 1, autoscaling_limit_max_cu: 10 },
      { autoscaling_limit_min_cu: 10, autoscaling_limit_max_cu: 18 },
      ...[-2, 1, 59, 604_801, 1e300].map((seconds) => ({ suspend_timeout_seconds: seconds })),
    ];
    for (const fields of bad) {
      const requests = [
        api.call('POST', `/projects/${ids.project_id}/endpoints`, { body: { endpoint: { ...endpoint, ...fields } } }),
        api.call('PATCH', `/projects/${ids.project_id}/endpoints/${ids.endpoint_id}`, { body: { endpoint: fields } }),
        api.call('POST', '/projects', { body: { project: { default_endpoint_settings: fields } } }),
        api.call('PATCH', `/projects/${ids.project_id}`, { body: { project: { default_endpoint_settings: fields } } }),
      ];
      for (const { status, body } of await Promise.all(requests)) {
        assert.equal(status, 400, `${JSON.stringify(fields)}: ${JSON.stringify(body)}`);
      }
    }
  });

  it('as a Postgres version is refused', async () => {
    for (const pg_version of [-1, 0, 9, 14, 15, 19, 99, 17.5, 1e300, '17', null]) {
      const { status } = await api.call('POST', '/projects', { body: { project: { pg_version } } });
      assert.equal(status, 400, String(pg_version));
    }
  });

  it('beyond what is known is ignored', async () => {
    const { status, body } = await api.call('POST', '/projects', {
      body: { project: { name: 'known', colour: 'green' }, mood: 'good' },
    });
    assert.equal(status, 201);
    assert.equal(body.project.name, 'known');
    assert.equal('colour' in body.project, false);
  });
});
