import assert from 'node:assert/strict';
import { after, before, it } from 'node:test';
import type { Route } from '../../src/api/route.ts';
import { ROUTES } from '../../src/api/routes.ts';
import { addCallers } from '../support/api-callers.ts';
import { type CallOptions, startTestApi, type TestApi } from '../support/api-server.ts';
import { type ContractWorld, createContractWorld } from '../support/contract-world.ts';
import { hostileBody, hostileText, oneAmong } from '../support/hostile-values.ts';
import { addOrganization, addPerson } from '../support/people.ts';
import { seededRandom, testSeed } from '../support/random.ts';
import { type ExampleIds, exampleBody, exampleQuery } from '../support/request-examples.ts';
import type { Json } from '../support/schema-values.ts';

/** Requests that nobody would send who means well, to every route: never a failure of ours, never what is another's. */

const REQUESTS = process.env.COPPICE_TEST_LONG ? 20_000 : 1_500;
/** Requests change and delete what they are tried on, so that a new project is made after so many. */
const REQUESTS_PER_WORLD = 100;
/** In names that only the other tenant has ever sent. */
const MARKER = 'seen-by-nobody-else';
const UNKNOWN_UUID = '00000000-0000-4000-8000-000000000000';

type Call = TestApi['call'];

/** Everything that a tenant can see of its project. */
async function readAll(call: Call, { path: { project_id, branch_id, org_id }, main_id }: ContractWorld) {
  const project = `/projects/${project_id}`;
  const below = [branch_id, main_id].flatMap((id) => [
    `${project}/branches/${id}/roles`,
    `${project}/branches/${id}/databases`,
    `${project}/branches/${id}/backup_schedule`,
  ]);
  const places = ['', '/branches', '/endpoints', '/snapshots', '/jwks', '/operations'].map((place) => project + place);
  const all: Record<string, unknown> = {};
  for (const place of [...places, ...below, `/projects?org_id=${org_id}`]) all[place] = (await call('GET', place)).body;
  return all;
}

/** Gives what a tenant has names that can be told from everybody else's. */
async function mark(call: Call, { path }: ContractWorld): Promise<void> {
  const project = `/projects/${path.project_id}`;
  const changes: [string, Json][] = [
    [project, { project: { name: MARKER } }],
    [`${project}/branches/${path.branch_id}`, { branch: { name: MARKER } }],
    [`${project}/endpoints/${path.endpoint_id}`, { endpoint: { name: MARKER } }],
    [`${project}/snapshots/${path.snapshot_id}`, { snapshot: { name: MARKER } }],
  ];
  for (const [place, body] of changes) assert.equal((await call('PATCH', place, { body })).status, 200, place);
}

function exampleIds({ path }: ContractWorld): ExampleIds {
  const { project_id, branch_id, endpoint_id, org_id } = path as Record<keyof ExampleIds, string>;
  return { project_id, branch_id, endpoint_id, org_id };
}

let api: TestApi;
before(async () => {
  api = await startTestApi();
});
after(() => api?.close());

it('hostile requests never fail for a reason of ours, and never reach what is another tenant’s', async (test) => {
  const seed = testSeed();
  test.diagnostic(`COPPICE_TEST_SEED=${seed}`);
  const random = seededRandom(seed);
  const elsewhere = await addOrganization(api);
  const other = await addPerson(api, { organization_id: elsewhere, role: 'admin' });
  const asOther: Call = (method, path, options) => api.call(method, path, { key: other.key, ...options });
  const theirs = await createContractWorld({ ...api, call: asOther });
  await mark(asOther, theirs);
  const before = await readAll(asOther, theirs);
  const foreign = Object.values(theirs.path);

  const request = (route: Route, ours: ContractWorld): [path: string, options: CallOptions] => {
    const path = route.path.replace(/:(\w+)/g, (_, name: string) => {
      const kind = random();
      const known = (kind < 0.75 ? ours : theirs).path[name] ?? UNKNOWN_UUID;
      return encodeURIComponent(kind < 0.9 ? known : hostileText(random).toWellFormed());
    });
    const query = new URLSearchParams(exampleQuery(route, exampleIds(ours)));
    const { properties = {} } = (route.schema.querystring ?? {}) as { properties?: Record<string, unknown> };
    for (const name of Object.keys(properties)) {
      // Nobody is to wait here.
      if (random() < 0.3 && !/wait/.test(name)) {
        query.append(name, random() < 0.2 ? oneAmong(foreign, random) : hostileText(random));
      }
    }
    const example = exampleBody(route, exampleIds(random() < 0.9 ? ours : theirs)) as Json | undefined;
    const body = example && (random() < 0.2 ? example : hostileBody(example, foreign, random));
    const text = body === undefined ? undefined : JSON.stringify(body);
    return [query.size > 0 ? `${path}?${query}` : path, { body: text, headers: jsonType(text) }];
  };

  let ours = await createContractWorld(api);
  let keys = Object.values(await addCallers(api, callersOf(ours), ours.path.project_id!)).slice(1);
  const succeeded = new Set<Route>();
  for (let count = 1; count <= REQUESTS; count += 1) {
    if (count % REQUESTS_PER_WORLD === 0) {
      ours = await createContractWorld(api);
      keys = Object.values(await addCallers(api, callersOf(ours), ours.path.project_id!)).slice(1);
    }
    const route = oneAmong(ROUTES, random);
    const [path, options] = request(route, ours);
    const what = `seed ${seed}, request ${count}: ${route.method} ${path} ${String(options.body).slice(0, 1000)}`;
    const { status, headers, body } = await api
      .call(route.method, path, { ...options, key: oneAmong(keys, random) })
      .catch((error: Error) => assert.fail(`${what}: ${error.message}`));
    // What looks into a database needs a compute, and there are none here.
    assert.ok(
      status < 500 || status === 501 || (status === 503 && /\/(schema|compare_schema|advisors)/.test(path)),
      `${what}: ${status}`,
    );
    assert.equal(headers['x-injected'] ?? headers['set-cookie'], undefined, what);
    assert.ok(!JSON.stringify(body ?? '').includes(MARKER), `${what}: ${JSON.stringify(body)}`);
    if (status < 300) succeeded.add(route);
  }
  assert.deepEqual(await readAll(asOther, theirs), before, `seed ${seed}: what is another's has changed`);
  // Else all of this was refused at the door.
  assert.ok(succeeded.size > ROUTES.length / 5, `only ${succeeded.size} routes ever answered`);
});

const callersOf = ({ path }: ContractWorld) => ({ id: path.project_id!, org_id: path.org_id! });
const jsonType = (text: string | undefined): Record<string, string> =>
  text === undefined ? {} : { 'content-type': 'application/json' };
