import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { LOGIN_ROUTES } from '../../src/api/login/table.ts';
import { PERMISSIONS, type PermissionName } from '../../src/api/permissions.ts';
import type { Route } from '../../src/api/route.ts';
import { ROUTES } from '../../src/api/routes.ts';
import { type ApiCallers, addCallers } from '../support/api-callers.ts';
import { type CallAnswer, startTestApi, type TestApi } from '../support/api-server.ts';
import { type ExampleIds, exampleBody, examplePath, exampleQuery } from '../support/request-examples.ts';

/** What becomes of a request. `hidden`: as if the project or organisation did not exist. */
type Outcome =
  | 'allowed'
  | 'unauthenticated'
  | 'hidden'
  | 'forbidden'
  | 'personal only'
  | 'no project key'
  | 'out of scope';
type Expected = Record<keyof ApiCallers, Outcome>;

const anybody: Expected = {
  admin: 'allowed',
  session: 'allowed',
  member: 'allowed',
  outsider: 'allowed',
  shared: 'allowed',
  organization_key: 'allowed',
  foreign_organization_key: 'allowed',
  project_key: 'allowed',
  foreign_project_key: 'allowed',
};
const people: Expected = {
  ...anybody,
  organization_key: 'personal only',
  foreign_organization_key: 'personal only',
  project_key: 'personal only',
  foreign_project_key: 'personal only',
};
const peopleAndOrganizations: Expected = {
  ...anybody,
  project_key: 'out of scope',
  foreign_project_key: 'out of scope',
};
const project: Expected = {
  admin: 'allowed',
  session: 'allowed',
  member: 'allowed',
  outsider: 'hidden',
  shared: 'allowed',
  organization_key: 'allowed',
  foreign_organization_key: 'hidden',
  project_key: 'allowed',
  foreign_project_key: 'out of scope',
};
const organization: Expected = { ...project, shared: 'hidden', project_key: 'out of scope' };
const admins: Expected = { ...organization, member: 'forbidden' };
const peopleOfTheOrganization: Expected = {
  ...organization,
  organization_key: 'personal only',
  foreign_organization_key: 'personal only',
};
/** Beside themselves, nobody but admins: a key of the organisation is no person. */
const peopleWhoAdminister: Expected = { ...peopleOfTheOrganization, member: 'forbidden' };

/** Who may do what, said a second time and in other words than in the product. */
const EXPECTED: Record<PermissionName, Expected> = {
  'api_keys.manage': people,
  'user.read': people,
  'user.list_organizations': anybody,
  'auth.read': anybody,
  'regions.list': anybody,
  'organization.read': organization,
  'organization.update': admins,
  'organization_key.list': organization,
  'organization_key.create': peopleOfTheOrganization,
  'organization_key.revoke': admins,
  'member.read': organization,
  'member.update': admins,
  'member.remove': peopleWhoAdminister,
  'invitation.list': organization,
  'invitation.write': peopleWhoAdminister,
  'audit_log.read': admins,
  'project.list': peopleAndOrganizations,
  'project.list_shared': people,
  'project.create': peopleAndOrganizations,
  'project.delete': {
    ...project,
    member: 'forbidden',
    shared: 'forbidden',
    project_key: 'no project key',
    foreign_project_key: 'no project key',
  },
  'project.share': { ...project, project_key: 'no project key', foreign_project_key: 'no project key' },
  'project.offer': {
    ...project,
    member: 'forbidden',
    shared: 'forbidden',
    project_key: 'no project key',
    foreign_project_key: 'no project key',
  },
  // The example names an organisation, which is none of the outsiders'.
  'project.take': {
    ...project,
    shared: 'hidden',
    project_key: 'no project key',
    foreign_project_key: 'no project key',
  },
  'organization.transfer_projects': peopleWhoAdminister,
  'user.transfer_projects': { ...people, member: 'forbidden', outsider: 'hidden', shared: 'hidden' },
  'project.recover': {
    ...project,
    member: 'forbidden',
    shared: 'hidden',
    project_key: 'no project key',
    foreign_project_key: 'no project key',
  },
  'project.read': project,
  'project.update': project,
  'branch.read': project,
  'branch.write': project,
  'snapshot.read': project,
  'snapshot.write': project,
  'endpoint.read': project,
  'endpoint.write': project,
  'role.read': project,
  'role.write': project,
  'role.reveal_password': project,
  'database.read': project,
  'database.write': project,
  'connection_uri.read': project,
  'operation.read': project,
  'consumption.read': organization,
  'event.read': anybody,
  'webhook.read': project,
  'webhook.write': project,
  'organization_webhook.read': admins,
  'organization_webhook.write': admins,
};

function outcomeOf({ status, body }: CallAnswer): Outcome {
  const message: string = body?.message ?? '';
  if (status === 401) return 'unauthenticated';
  if (status === 403) return 'forbidden';
  if (status !== 404) return 'allowed';
  if (message === 'project not found' || message === 'organization not found') return 'hidden';
  if (message === 'not allowed for organization API keys') return 'personal only';
  if (message === 'not allowed for project-scoped API keys') return 'no project key';
  if (/outside the project this key is scoped to; subject_project_id:"[a-z0-9-]+"$/.test(message))
    return 'out of scope';
  return 'allowed';
}

const nameOf = (route: Route) => `${route.method} ${route.path}`;

describe('permissions', () => {
  let api: TestApi;
  before(async () => {
    api = await startTestApi();
  });
  after(() => api?.close());

  const createProject = async () => {
    const { body } = await api.call('POST', '/projects', { body: { project: {} } });
    const { project, branch, endpoints } = body;
    return {
      project,
      ids: { project_id: project.id, branch_id: branch.id, endpoint_id: endpoints[0].id, org_id: project.org_id },
    };
  };
  const call = (route: Route, ids: ExampleIds, key: string | null) =>
    api.call(route.method, examplePath(route, ids) + exampleQuery(route, ids), { key, body: exampleBody(route, ids) });

  for (const route of ROUTES) {
    it(`of ${nameOf(route)}`, async () => {
      const expected = EXPECTED[route.permission];
      const { project, ids } = await createProject();
      const foreign = await createProject();
      const callers = await addCallers(api, project, foreign.project.id);
      const names = Object.keys(callers) as (keyof ApiCallers)[];
      // Those who are refused come first: they must leave the project as it is for the others.
      names.sort((a, b) => Number(expected[a] === 'allowed') - Number(expected[b] === 'allowed'));
      assert.equal(outcomeOf(await call(route, ids, null)), 'unauthenticated');
      for (const name of names) {
        const own =
          expected[name] === 'allowed' && route.method === 'DELETE' ? await fresh(project, callers) : undefined;
        const answer = await call(route, own?.ids ?? ids, own?.callers[name] ?? callers[name]);
        assert.notEqual(answer.status, 400, `the example is not valid: ${JSON.stringify(answer.body)}`);
        assert.equal(outcomeOf(answer), expected[name], `${name}: ${answer.status} ${JSON.stringify(answer.body)}`);
      }
    });
  }

  /** Another project of the same organisation, with keys: a deletion needs something to delete. */
  const fresh = async (before: { org_id: string }, callers: ApiCallers) => {
    const { project, ids } = await createProject();
    assert.equal(project.org_id, before.org_id);
    const own = await addCallers(api, project, project.id);
    return { ids, callers: { ...callers, shared: own.shared, project_key: own.project_key } };
  };

  it('are named by routes, all of them', () => {
    const named = new Set(ROUTES.map((route) => route.permission));
    assert.deepEqual([...named].sort(), Object.keys(PERMISSIONS).sort());
  });

  it('cover every route that the server has, but for those that anybody may read or log in by', () => {
    const served = routesOf(api.app.printRoutes({ commonPrefix: false }));
    const known = ROUTES.map((route) => `${route.method} /api/v2${route.path}`);
    const login = LOGIN_ROUTES.map(({ method, path }) => `${method} /api/auth${path}`);
    const open = [
      'GET /api/v2/openapi.json',
      'GET /healthz',
      'GET /readyz',
      'GET /login/link',
      'GET /api/auth/methods',
    ];
    const others = served.filter((name) => !/^GET \/api\/docs(\/|$)/.test(name));
    assert.deepEqual(others.sort(), [...known, ...open, ...login].sort());
  });

  it('to change something are not those to read', () => {
    const READS = /\.(read|list|list_\w+|reveal_\w+)$/;
    for (const route of ROUTES) {
      if (READS.test(route.permission)) assert.equal(route.method, 'GET', nameOf(route));
    }
  });

  it('end with the membership, at the next request', async () => {
    const { project, ids } = await createProject();
    const callers = await addCallers(api, project, project.id);
    const read = () => api.call('GET', `/projects/${ids.project_id}`, { key: callers.member });
    assert.equal((await read()).status, 200);
    const { body: me } = await api.call('GET', '/users/me', { key: callers.member });
    await api.store.store.deleteFrom('memberships').where('user_id', '=', me.id).execute();
    assert.equal((await read()).status, 404);
  });

  it('of a member of several organizations ask which one is meant', async () => {
    const { project } = await createProject();
    const callers = await addCallers(api, project, project.id);
    const { body } = await api.call('GET', '/users/me/organizations', { key: callers.outsider });
    const other = body.organizations[0].id;
    const { body: me } = await api.call('GET', '/users/me', { key: callers.member });
    await api.store.store
      .insertInto('memberships')
      .values({ organization_id: other, user_id: me.id, role: 'member' })
      .execute();
    const unclear = await api.call('GET', '/projects', { key: callers.member });
    assert.deepEqual([unclear.status, /org_id is required/.test(unclear.body.message)], [400, true]);
    const there = await api.call('GET', `/projects?org_id=${other}`, { key: callers.member });
    assert.deepEqual(there.body.projects, []);
    const made = await api.call('POST', '/projects', {
      key: callers.member,
      body: { project: { org_id: other } },
    });
    assert.equal(made.body.project.org_id, other);
    assert.equal((await api.call('GET', `/projects/${made.body.project.id}`)).status, 404);
  });
});

/** The routes in what Fastify prints: a tree with a line for each path segment. HEAD comes with every GET. */
function routesOf(printed: string): string[] {
  const path: string[] = [];
  return printed.split('\n').flatMap((line) => {
    const match = /^([│ ]*)[├└]── (\S+)(?: \(([A-Z, ]+)\))?$/.exec(line);
    if (!match) return [];
    path.length = match[1]!.length / 4;
    path.push(match[2]!);
    const methods = (match[3] ?? '').split(', ').filter((method) => method !== '' && method !== 'HEAD');
    return methods.map((method) => `${method} ${path.join('')}`);
  });
}
