import assert from 'node:assert/strict';
import type { Route } from '../../src/api/route.ts';
import type { TestApi } from './api-server.ts';
import { addOrganization, addPerson, type Person } from './people.ts';
import {
  createReadyBranch,
  createSleepingProject,
  finishOperations,
  observeEndpoint,
  type TestProject,
} from './project.ts';
import { type ExampleIds, exampleBody } from './request-examples.ts';

export interface PreparedRequest {
  readonly path: string;
  readonly body?: unknown;
  /** Who asks; the first user unless given. */
  readonly by?: Person;
  /** It was made to; a refusal means that the preparation is out of date. */
  readonly must_succeed?: boolean;
}

type Prepare = (api: TestApi, project: TestProject, route: Route) => Promise<Omit<PreparedRequest, 'must_succeed'>>;

const idsOf = (project: TestProject): ExampleIds => ({ ...project, project_id: project.id, org_id: '' });
const body = (route: Route, project: TestProject) => exampleBody(route, idsOf(project));

async function done(api: TestApi, project: TestProject, path: string, sent?: unknown) {
  const answer = await api.call('POST', `/projects/${project.id}${path}`, { body: sent });
  assert.ok(answer.status < 300, answer.body?.message);
  await finishOperations(api, project.id);
  return answer.body;
}

const snapshot: Prepare = async (api, project, route) => {
  const made = await done(api, project, `/branches/${project.branch_id}/snapshot`, { name: 'a snapshot' });
  const verb = route.path.endsWith('/restore') ? '/restore' : '';
  return {
    path: `/projects/${project.id}/snapshots/${made.snapshot.id}${verb}`,
    body: verb ? { name: 'restored', finalize_restore: false } : body(route, project),
  };
};

const endpointIs =
  (state: 'running' | 'stopped'): Prepare =>
  async (api, project, route) => {
    await observeEndpoint(api, project.endpoint_id, state);
    const verb = route.path.split('/').at(-1);
    return { path: `/projects/${project.id}/endpoints/${project.endpoint_id}/${verb}` };
  };

const onChild =
  (verb: string): Prepare =>
  async (api, project) => {
    const { branch } = await createReadyBranch(api, project);
    return { path: `/projects/${project.id}/branches/${branch.id}${verb}` };
  };

const onMasked =
  (verb: string): Prepare =>
  async (api, project, route) => {
    const { branch } = await done(api, project, '/branch_anonymized', {});
    const sent = route.schema.body ? body(route, project) : undefined;
    return { path: `/projects/${project.id}/branches/${branch.id}${verb}`, body: sent };
  };

const organizationOf = async (api: TestApi): Promise<string> =>
  (await api.call('GET', '/users/me/organizations')).body.organizations[0].id;

const ofMember: Prepare = async (api, _, route) => {
  const organization_id = await organizationOf(api);
  const { id: user_id } = await addPerson(api, { organization_id, role: 'member' });
  const { id } = await api.store.store
    .selectFrom('memberships')
    .select('id')
    .where('user_id', '=', user_id)
    .executeTakeFirstOrThrow();
  return {
    path: `/organizations/${organization_id}/members/${id}`,
    body: route.method === 'PATCH' ? { role: 'admin' } : undefined,
  };
};

const webhook: Prepare = async (api, project, route) => {
  const owner = route.path.startsWith('/org')
    ? `/organizations/${await organizationOf(api)}`
    : `/projects/${project.id}`;
  const url = 'https://a.example.test/';
  const { id } = (await api.call('POST', `${owner}/webhooks`, { body: { url, event_types: [] } })).body.webhook;
  const path = `${owner}/webhooks/${id}`;
  if (route.method === 'DELETE') return { path };
  if (route.path.endsWith('/rotate_secret')) return { path: `${path}/rotate_secret` };
  const { rows } = await api.store.pool.query(
    `insert into coppice.webhook_deliveries (webhook_id, event_id, event_type, body, status)
     values ($1, 'an-event', 'branch.created', '{}', 'failed') returning id`,
    [id],
  );
  return { path: `${path}/deliveries/${rows[0].id}/redeliver` };
};

/** By somebody who administers two organisations, with a project in the first. */
const transfer: Prepare = async (api, _, route) => {
  const [from, to] = [await addOrganization(api), await addOrganization(api)];
  const by = await addPerson(api, { organization_id: from, role: 'admin' });
  await api.store.store
    .insertInto('memberships')
    .values({ organization_id: to, user_id: by.id, role: 'admin' })
    .execute();
  const { body: made } = await api.call('POST', '/projects', { key: by.key, body: { project: { org_id: from } } });
  const project_id = made.project.id;
  if (route.method === 'POST') {
    const path = route.path.replace(':org_id', from);
    return { path, by, body: { destination_org_id: to, project_ids: [project_id] } };
  }
  const offers = `/projects/${project_id}/transfer_requests`;
  const { body: offer } = await api.call('POST', offers, { key: by.key });
  return { path: `${offers}/${offer.id}`, by, body: { org_id: to } };
};

/** Routes whose example needs something to be there, or would be refused as it stands. */
const PREPARED: Readonly<Record<string, Prepare>> = {
  'DELETE /api_keys/:key_id': async (api) => {
    const { body: key } = await api.call('POST', '/api_keys', { body: { key_name: 'to be revoked' } });
    return { path: `/api_keys/${key.id}` };
  },
  'DELETE /organizations/:org_id/api_keys/:key_id': async (api) => {
    const keys = `/organizations/${await organizationOf(api)}/api_keys`;
    const { body: key } = await api.call('POST', keys, { body: { key_name: 'to be revoked' } });
    return { path: `${keys}/${key.id}` };
  },
  'DELETE /organizations/:org_id/webhooks/:webhook_id': webhook,
  'POST /organizations/:org_id/webhooks/:webhook_id/rotate_secret': webhook,
  'POST /organizations/:org_id/webhooks/:webhook_id/deliveries/:delivery_id/redeliver': webhook,
  'DELETE /projects/:project_id/webhooks/:webhook_id': webhook,
  'POST /projects/:project_id/webhooks/:webhook_id/rotate_secret': webhook,
  'POST /projects/:project_id/webhooks/:webhook_id/deliveries/:delivery_id/redeliver': webhook,
  'POST /projects/:project_id/recover': async (api, project) => {
    await api.call('DELETE', `/projects/${project.id}`);
    return { path: `/projects/${project.id}/recover` };
  },
  'POST /projects/:project_id/branches/:branch_id/recover': async (api, project, route) => {
    const { path } = await onChild('')(api, project, route);
    await api.call('DELETE', path);
    return { path: `${path}/recover` };
  },
  'PATCH /organizations/:org_id/members/:member_id': ofMember,
  'DELETE /organizations/:org_id/members/:member_id': ofMember,
  'DELETE /organizations/:org_id/invitations/:invitation_id': async (api) => {
    const invitations = `/organizations/${await organizationOf(api)}/invitations`;
    const sent = { invitations: [{ email: 'to-be-forgotten@example.test', role: 'member' }] };
    const { body: made } = await api.call('POST', invitations, { body: sent });
    return { path: `${invitations}/${made.invitations[0].id}` };
  },
  'DELETE /projects/:project_id/permissions/:permission_id': async (api, project) => {
    const permission = await done(api, project, '/permissions', { email: 'a-guest@example.test' });
    return { path: `/projects/${project.id}/permissions/${permission.id}` };
  },
  'PUT /projects/:project_id/transfer_requests/:request_id': transfer,
  'POST /organizations/:org_id/projects/transfer': transfer,
  'POST /users/me/projects/transfer': transfer,
  'POST /projects/:project_id/branches/:branch_id/renew_lease': async (api, project) => {
    const { branch } = await done(api, project, '/branches', { branch: { lease_ttl_seconds: 600 } });
    return { path: `/projects/${project.id}/branches/${branch.id}/renew_lease`, body: { lease_ttl_seconds: 6000 } };
  },
  'PATCH /projects/:project_id/branches/:branch_id/masking_rules': onMasked('/masking_rules'),
  'POST /projects/:project_id/branches/:branch_id/anonymize': onMasked('/anonymize'),
  'DELETE /projects/:project_id/branches/:branch_id': onChild(''),
  'POST /projects/:project_id/branches/:branch_id/set_as_default': onChild('/set_as_default'),
  'POST /projects/:project_id/branches/:branch_id/restore': async (api, project, route) => ({
    ...(await onChild('/restore')(api, project, route)),
    body: { source_branch_id: project.branch_id },
  }),
  'PATCH /projects/:project_id/snapshots/:snapshot_id': snapshot,
  'DELETE /projects/:project_id/snapshots/:snapshot_id': snapshot,
  'POST /projects/:project_id/snapshots/:snapshot_id/restore': snapshot,
  'POST /projects/:project_id/branches/:branch_id/finalize_restore': async (api, project, route) => {
    const restore = await snapshot(api, project, { ...route, path: '/restore' });
    const restored = await done(api, project, restore.path.replace(`/projects/${project.id}`, ''), {
      ...{ name: 'restored', target_branch_id: project.branch_id, finalize_restore: false },
    });
    return { path: `/projects/${project.id}/branches/${restored.branch.id}/finalize_restore`, body: { name: 'old' } };
  },
  'POST /projects/:project_id/endpoints': async (api, project, route) => {
    const { branch } = await createReadyBranch(api, project);
    return {
      path: `/projects/${project.id}/endpoints`,
      body: exampleBody(route, { ...idsOf(project), branch_id: branch.id }),
    };
  },
  'POST /projects/:project_id/endpoints/:endpoint_id/start': endpointIs('stopped'),
  'POST /projects/:project_id/endpoints/:endpoint_id/suspend': endpointIs('running'),
  'POST /projects/:project_id/endpoints/:endpoint_id/restart': endpointIs('running'),
  'DELETE /projects/:project_id/branches/:branch_id/roles/:role_name': async (api, project) => {
    const roles = `/branches/${project.branch_id}/roles`;
    await done(api, project, roles, { role: { name: 'superfluous' } });
    return { path: `/projects/${project.id}${roles}/superfluous` };
  },
  'DELETE /projects/:project_id/jwks/:jwks_id': async (api, project) => {
    const issuer = { jwks_url: 'https://issuer.example.test/jwks.json', provider_name: 'an issuer' };
    const { jwks } = await done(api, project, '/jwks', issuer);
    return { path: `/projects/${project.id}/jwks/${jwks.id}` };
  },
};

/** A request of a route that changes something, on a project of its own; undefined where the plain example has to do. */
export async function prepareChange(api: TestApi, route: Route): Promise<PreparedRequest | undefined> {
  const prepare = PREPARED[`${route.method} ${route.path}`];
  return prepare && { ...(await prepare(api, await createSleepingProject(api), route)), must_succeed: true };
}
