import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { PUBLIC_OPERATIONS, type PublicOperation } from '../../src/api/public-operations.ts';
import { ROUTES } from '../../src/api/routes.ts';
import { type CallAnswer, startTestApi, type TestApi } from '../support/api-server.ts';
import { type ContractWorld, createContractWorld } from '../support/contract-world.ts';
import { type PublicRequest, publicRequests } from '../support/openapi-contract.ts';
import { seededRandom, testSeed } from '../support/random.ts';
import { type Json, placesIn, replacedIn, type ValueSource, valueFor, wrongTypes } from '../support/schema-values.ts';

/**
 * Every operation of the public OpenAPI file against the server: whether it does what the table says of it. Status and body
 * of each answer are held against the file by `call` itself.
 */

const UNKNOWN_UUID = '00000000-0000-4000-8000-000000000000';
const REQUESTS_EACH = 6;
/** The same requests each time, unless a seed is given. */
const SEED = process.env.COPPICE_TEST_SEED ? testSeed() : 2026;

type PathValues = Readonly<Record<string, string>>;

/** Where what everything else is tried with would not do. Only root branches have snapshots. */
const OTHER_VALUES: Readonly<Record<string, (world: ContractWorld) => PathValues | Promise<PathValues>>> = {
  'POST /projects/{project_id}/branches/{branch_id}/snapshot': ({ main_id }) => ({ branch_id: main_id }),
  'GET /projects/{project_id}/branches/{branch_id}/backup_schedule': ({ main_id }) => ({ branch_id: main_id }),
  'PUT /projects/{project_id}/branches/{branch_id}/backup_schedule': ({ main_id }) => ({ branch_id: main_id }),
  'POST /projects/{project_id}/branches/{branch_id}/finalize_restore': async (world) => ({
    branch_id: await world.restore(),
  }),
  ...Object.fromEntries(
    ['GET masking_rules', 'PATCH masking_rules', 'GET anonymized_status', 'POST anonymize'].map((operation) => [
      operation.replace(' ', ' /projects/{project_id}/branches/{branch_id}/'),
      async (world: ContractWorld) => ({ branch_id: await world.mask() }),
    ]),
  ),
  'DELETE /organizations/{org_id}/api_keys/{key_id}': ({ organization_key_id }) => ({ key_id: organization_key_id }),
};

/** What succeeds only where there are computes, or deleted things are kept, is shown to succeed elsewhere. */
const SHOWN_ELSEWHERE: Readonly<Record<string, string>> = {
  'POST /users/me/projects/transfer': 'test/api/transfers.test.ts',
  'POST /projects/{project_id}/recover': 'test/api/deleted-projects.test.ts',
  'POST /projects/{project_id}/branches/{branch_id}/recover': 'test/api/deleted-branches.test.ts',
  'GET /projects/{project_id}/advisors': 'test/clients/schema.test.ts',
  'GET /projects/{project_id}/branches/{branch_id}/schema': 'test/clients/schema.test.ts',
  'GET /projects/{project_id}/branches/{branch_id}/compare_schema': 'test/clients/schema.test.ts',
};

/**
 * What the public file allows and the public API refuses: two points at once, settings without Postgres settings, advice on
 * one of several databases, and metrics of another version.
 */
const REFUSED_THERE_TOO =
  /(lsn", problem:"excludes .*timestamp|settings must not be nil|since the branch has 2 databases|known are active_time_seconds.*)"$/;

const isServed = ({ answer }: PublicOperation) => answer === 'served' || answer === 'degraded';
const namesIn = (path: string) => [...path.matchAll(/\{(\w+)\}/g)].map((match) => match[1]!);

/** The path of an operation in the world; what is not there has a name that nothing has. */
async function pathOf({ name, path }: PublicRequest, world: ContractWorld): Promise<string> {
  const values = { ...world.path, ...(await OTHER_VALUES[name]?.(world)) };
  return path.replace(/\{(\w+)\}/g, (_, parameter: string) => values[parameter] ?? UNKNOWN_UUID);
}

function queryOf(request: PublicRequest, source: ValueSource): Record<string, string> {
  const chosen = request.query.filter(
    // A cursor is what a page before gave.
    ({ name, required }) => required || (name !== 'cursor' && source.random() < source.optional),
  );
  return Object.fromEntries(chosen.map(({ name, schema }) => [name, String(valueFor(schema, source, name))]));
}

function assertHeaders(what: string, { status, headers, body }: CallAnswer): void {
  const id = headers['x-request-id'];
  assert.match(String(id), /^[0-9a-f-]{36}$/, `${what}: names the request`);
  assert.equal(headers['cache-control'], 'no-store', what);
  if (status === 204) assert.equal(headers['content-type'], undefined, what);
  else assert.equal(headers['content-type'], 'application/json; charset=utf-8', what);
  if (status >= 400) assert.equal(body.request_id, id, what);
  // SDKs give up when they are asked to wait for more than ten seconds.
  if (status === 423 || status === 503) assert.ok(Number(headers['retry-after']) <= 10, what);
}

describe('the public API', () => {
  let api: TestApi;
  /** For requests that change nothing. */
  let quiet: ContractWorld;
  before(async () => {
    api = await startTestApi();
    quiet = await createContractWorld(api);
  });
  after(() => api?.close());

  const requests = publicRequests();

  it('has a row of the table for each of its operations, and the table has no others', () => {
    assert.deepEqual(Object.keys(PUBLIC_OPERATIONS).sort(), requests.map(({ name }) => name).sort());
  });

  it('is said to be served where there is a route, and nowhere else', () => {
    const shapeOf = (name: string) => name.replace(/\{\w+\}|:\w+/g, '{}');
    const routes = new Set(ROUTES.map(({ method, path }) => shapeOf(`${method} ${path}`)));
    for (const [name, row] of Object.entries(PUBLIC_OPERATIONS)) {
      assert.equal(routes.has(shapeOf(name)), row.answer !== 'no_route', `change the row of ${name}`);
    }
  });

  const send = async (request: PublicRequest, path: string, query: Record<string, string>, body?: Json) => {
    const search = new URLSearchParams(query);
    const url = search.size === 0 ? path : `${path}?${search}`;
    const text = body === undefined ? undefined : JSON.stringify(body);
    const headers: Record<string, string> = text === undefined ? {} : { 'content-type': 'application/json' };
    const answer = await api.call(request.method, url, { body: text, headers });
    const what = `${request.method} ${url} ${JSON.stringify(body)} -> ${answer.status} ${JSON.stringify(answer.body)}`;
    assertHeaders(what, answer);
    return { ...answer, what };
  };

  const known = requests.filter(({ name }) => name in PUBLIC_OPERATIONS);
  for (const request of known.filter(({ name }) => isServed(PUBLIC_OPERATIONS[name]!))) {
    const { name, body: bodySchema } = request;
    const needsBody = bodySchema?.required === true;

    it(`answers ${name} as described`, async () => {
      const world = request.method === 'GET' ? quiet : await createContractWorld(api);
      const path = await pathOf(request, world);
      const random = seededRandom(SEED);
      const least: ValueSource = { random, known: world.known, optional: 0 };
      const first = await send(
        request,
        path,
        queryOf(request, least),
        needsBody ? valueFor(bodySchema.schema, least) : undefined,
      );
      const reachable = namesIn(request.path).every((parameter) => parameter in world.path);
      if (reachable && !SHOWN_ELSEWHERE[name]) assert.ok(first.status < 300, first.what);
      for (let count = 0; count < REQUESTS_EACH; count += 1) {
        const source = { ...least, optional: count === 0 ? 1 : 0.4 };
        const body = bodySchema && valueFor(bodySchema.schema, source);
        const { status, body: answer, what } = await send(request, path, queryOf(request, source), body);
        const refused = status === 400 && /^invalid request; /.test(answer.message);
        assert.ok(
          !refused || REFUSED_THERE_TOO.test(answer.message),
          `seed ${SEED}: what is allowed is refused: ${what}`,
        );
      }
    });

    if (!bodySchema && request.query.length === 0) continue;
    it(`refuses of ${name} what is not described`, async () => {
      const path = await pathOf(request, quiet);
      const all: ValueSource = { random: seededRandom(SEED), known: quiet.known, optional: 1 };
      const least = { ...all, optional: 0 };
      const query = queryOf(request, least);
      const assertRefused = ({ status, what }: { status: number; what: string }) =>
        assert.equal(status, 400, `what is not allowed is taken: ${what}`);
      for (const { name: parameter, required } of request.query) {
        if (!required) continue;
        const { [parameter]: _, ...rest } = query;
        assertRefused(await send(request, path, rest));
      }
      for (const { name: parameter, schema } of request.query) {
        const typed =
          typeof valueFor(schema, { ...all, known: {} }, parameter) !== 'string' || 'enum' in (schema as object);
        if (typed) assertRefused(await send(request, path, { ...query, [parameter]: 'x y' }));
      }
      if (!bodySchema) return;
      if (needsBody) assertRefused(await send(request, path, query));
      const body = valueFor(bodySchema.schema, all);
      for (const { path: place, value } of placesIn(body)) {
        for (const wrong of wrongTypes(value)) {
          assertRefused(await send(request, path, query, replacedIn(body, place, wrong)));
        }
      }
    });
  }

  for (const request of known) {
    const row = PUBLIC_OPERATIONS[request.name]!;
    if (isServed(row)) continue;
    it(`is told of ${request.name} that it is not there, in words that clients look for`, async () => {
      const path = await pathOf(request, quiet);
      for (const body of request.method === 'GET' ? [undefined] : [undefined, {}]) {
        const { status, body: answer } = await api.call(request.method, path, { body });
        const expected = {
          no_route: [404, 'this route does not exist'],
          not_enabled: [404, `${'feature' in row ? row.feature : ''} is not enabled`],
          not_available: [501, `${'feature' in row ? row.feature : ''} is not available on this server`],
        }[row.answer as 'no_route'];
        assert.deepEqual([status, answer.message], expected);
        assert.equal(answer.code, '');
      }
      const stranger = await api.call(request.method, path, { key: null });
      assert.equal(stranger.status, row.answer === 'no_route' ? 404 : 401);
    });
  }
});
