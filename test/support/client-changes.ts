import assert from 'node:assert/strict';
import { EndpointType, MemberRole } from '@neondatabase/api-client';
import type { TestApi } from './api-server.ts';
import type { ClientMethod, PublicClient } from './client-methods.ts';
import { addOrganization, addPerson } from './people.ts';

/** What there is to change with the client, in the names of the public file. */
export interface ClientWorld {
  readonly api: TestApi;
  readonly client: PublicClient;
  readonly clientOf: (api_key: string) => PublicClient;
  readonly project_id: string;
  /** Of a child of the default branch, with a compute that runs, and a role and a database named `spare`. */
  readonly branch_id: string;
  readonly main_id: string;
  readonly endpoint_id: string;
  readonly snapshot_id: string;
  readonly org_id: string;
  readonly member_id: string;
  readonly role: string;
  /** Makes an anonymized branch that waits to be masked. */
  readonly mask: () => Promise<string>;
  /** Has done with the operations of the project. */
  readonly settle: () => Promise<void>;
}

type Changes = { readonly [Method in ClientMethod]?: (world: ClientWorld) => Promise<void> };

const JWKS_URL = 'https://another-issuer.example.test/jwks.json';
const PASSWORD_LENGTH = 16;
const MASKING_RULES = [
  {
    ...{ database_name: 'neondb', schema_name: 'public', table_name: 'people', column_name: 'email' },
    masking_function: 'anon.fake_email()',
  },
];

/** The status of a refusal. */
const refused = (answer: Promise<unknown>): Promise<number> =>
  answer.then(
    () => assert.fail('it should have been refused'),
    ({ response }) => response.status,
  );
const names = (rows: readonly { name: string }[]) => rows.map(({ name }) => name).sort();

/** Somebody who administers an organization besides, to which projects can be given. */
async function giver({ api, clientOf }: ClientWorld) {
  const [from, to] = [await addOrganization(api), await addOrganization(api)];
  const person = await addPerson(api, { organization_id: from, role: 'admin' });
  await api.store.store
    .insertInto('memberships')
    .values({ organization_id: to, user_id: person.id, role: 'admin' })
    .execute();
  const client = clientOf(person.key);
  const { data } = await client.createProject({ project: { org_id: from } });
  return { client, from, to, project_id: data.project.id };
}

const keys: Changes = {
  createApiKey: async ({ client, clientOf }) => {
    const { data } = await client.createApiKey({ key_name: 'made through the client' });
    assert.equal((await clientOf(data.key).getCurrentUserInfo()).status, 200);
  },
  revokeApiKey: async ({ client, clientOf }) => {
    const { data } = await client.createApiKey({ key_name: 'to be revoked' });
    assert.equal((await client.revokeApiKey(data.id)).data.revoked, true);
    assert.equal(await refused(clientOf(data.key).getCurrentUserInfo()), 401);
  },
  createOrgApiKey: async ({ client, clientOf, org_id, project_id }) => {
    const { data } = await client.createOrgApiKey(org_id, { key_name: 'of one project', project_id });
    assert.equal(data.project_id, project_id);
    const scoped = clientOf(data.key);
    assert.equal((await scoped.getProject(project_id)).status, 200);
    assert.equal(await refused(scoped.deleteProject(project_id)), 404);
  },
  revokeOrgApiKey: async ({ client, clientOf, org_id }) => {
    const { data } = await client.createOrgApiKey(org_id, { key_name: 'to be revoked' });
    await client.revokeOrgApiKey(org_id, data.id);
    assert.equal(await refused(clientOf(data.key).getOrganization(org_id)), 401);
  },
};

const organizations: Changes = {
  deleteOrganizationSpendingLimit: async ({ client, org_id }) => {
    await client.deleteOrganizationSpendingLimit(org_id);
    assert.equal((await client.getOrganizationSpendingLimit(org_id)).data.spending_limit_cents, null);
  },
  createOrganizationInvitations: async ({ client, org_id }) => {
    const email = 'invited-by-the-client@example.test';
    await client.createOrganizationInvitations(org_id, { invitations: [{ email, role: MemberRole.Member }] });
    const { data } = await client.getOrganizationInvitations(org_id);
    assert.ok(data.invitations.some((invitation) => invitation.email === email));
  },
  updateOrganizationMember: async ({ client, org_id, member_id }) => {
    await client.updateOrganizationMember(org_id, member_id, { role: MemberRole.Admin });
    assert.equal((await client.getOrganizationMember(org_id, member_id)).data.role, 'admin');
  },
  removeOrganizationMember: async ({ client, org_id, member_id }) => {
    await client.removeOrganizationMember(org_id, member_id);
    assert.equal(await refused(client.getOrganizationMember(org_id, member_id)), 404);
  },
  transferProjectsFromOrgToOrg: async (world) => {
    const { client, from, to, project_id } = await giver(world);
    await client.transferProjectsFromOrgToOrg(from, { destination_org_id: to, project_ids: [project_id] });
    assert.equal((await client.getProject(project_id)).data.project.org_id, to);
  },
  transferProjectsFromUserToOrg: async (world) => {
    const { client, to, project_id } = await giver(world);
    await client.transferProjectsFromUserToOrg({ destination_org_id: to, project_ids: [project_id] });
    assert.equal((await client.getProject(project_id)).data.project.org_id, to);
  },
};

const projects: Changes = {
  createProject: async ({ client, org_id }) => {
    const branch = { name: 'trunk', role_name: 'maker', database_name: 'shop' };
    const { data, status } = await client.createProject({ project: { name: 'new', org_id, pg_version: 16, branch } });
    assert.equal(status, 201);
    const [{ connection_uri, connection_parameters }] = data.connection_uris as [(typeof data.connection_uris)[0]];
    // Its users put the other host in the place of this one.
    assert.ok(connection_uri.includes(connection_parameters.host));
    assert.equal(new URL(connection_uri).password, data.roles[0]!.password);
    const { data: found } = await client.getProject(data.project.id);
    assert.deepEqual([found.project.name, found.project.pg_version], ['new', 16]);
    const { data: listed } = await client.listProjectBranches({ projectId: data.project.id });
    assert.deepEqual(names(listed.branches), ['trunk']);
  },
  updateProject: async ({ client, project_id }) => {
    const allowed_ips = { ips: ['192.0.2.0/24'], protected_branches_only: true };
    await client.updateProject(project_id, { project: { name: 'renamed', settings: { allowed_ips } } });
    const { project } = (await client.getProject(project_id)).data;
    assert.deepEqual([project.name, project.settings?.allowed_ips], ['renamed', allowed_ips]);
  },
  deleteProject: async ({ client, project_id }) => {
    assert.equal((await client.deleteProject(project_id)).data.project.id, project_id);
    assert.equal(await refused(client.getProject(project_id)), 404);
  },
  recoverProject: async ({ client, project_id, branch_id, org_id }) => {
    await client.deleteProject(project_id);
    const { data } = await client.listProjects({ recoverable: true, org_id, limit: 400 });
    assert.ok(data.projects.some(({ id }) => id === project_id));
    await client.recoverProject(project_id);
    assert.equal((await client.getProjectBranch(project_id, branch_id)).status, 200);
  },
  addProjectJwks: async ({ client, project_id, branch_id }) => {
    const issuer = { jwks_url: JWKS_URL, provider_name: 'another', branch_id, role_names: ['spare'] };
    const { data } = await client.addProjectJwks(project_id, issuer);
    const { jwks } = (await client.getProjectJwks(project_id)).data;
    assert.deepEqual(jwks.find(({ id }) => id === data.jwks.id)?.role_names, ['spare']);
  },
  deleteProjectJwks: async ({ client, project_id }) => {
    const [first] = (await client.getProjectJwks(project_id)).data.jwks;
    await client.deleteProjectJwks(project_id, first!.id);
    assert.deepEqual((await client.getProjectJwks(project_id)).data.jwks, []);
  },
  grantPermissionToProject: async ({ api, client, clientOf, project_id }) => {
    const friend = await addPerson(api);
    await client.grantPermissionToProject(project_id, { email: friend.email });
    assert.equal((await clientOf(friend.key).getProject(project_id)).status, 200);
  },
  revokePermissionFromProject: async ({ api, client, clientOf, project_id }) => {
    const friend = await addPerson(api);
    const { data } = await client.grantPermissionToProject(project_id, { email: friend.email });
    await client.revokePermissionFromProject(project_id, data.id);
    assert.equal(await refused(clientOf(friend.key).getProject(project_id)), 404);
  },
  createProjectTransferRequest: async ({ client, project_id }) => {
    const { data, status } = await client.createProjectTransferRequest(project_id, { ttl_seconds: 60 });
    assert.deepEqual([status, data.project_id], [201, project_id]);
    assert.equal(Date.parse(data.expires_at) - Date.parse(data.created_at), 60_000);
  },
  acceptProjectTransferRequest: async (world) => {
    const { client, to, project_id } = await giver(world);
    const { data } = await client.createProjectTransferRequest(project_id, {});
    const { status } = await client.acceptProjectTransferRequest(project_id, data.id, { org_id: to });
    assert.equal(status, 204);
    assert.equal((await client.getProject(project_id)).data.project.org_id, to);
  },
};

const branches: Changes = {
  createProjectBranch: async ({ client, project_id, main_id, settle }) => {
    const { data } = await client.createProjectBranch(project_id, {
      branch: { name: 'preview/pr-1', parent_id: main_id },
      endpoints: [{ type: EndpointType.ReadWrite }],
      annotation_value: { pull_request: '1' },
    });
    assert.deepEqual(
      data.operations.map(({ action }) => action),
      ['create_branch', 'start_compute'],
    );
    await settle();
    const { data: found } = await client.getProjectBranch(project_id, data.branch.id);
    assert.deepEqual([found.branch.parent_id, found.branch.current_state], [main_id, 'ready']);
    assert.deepEqual(found.annotation?.value, { pull_request: '1' });
  },
  updateProjectBranch: async ({ client, project_id, branch_id }) => {
    await client.updateProjectBranch(project_id, branch_id, { branch: { name: 'renamed', protected: true } });
    const { branch } = (await client.getProjectBranch(project_id, branch_id)).data;
    assert.deepEqual([branch.name, branch.protected], ['renamed', true]);
  },
  deleteProjectBranch: async ({ client, project_id, branch_id, settle }) => {
    const { data } = await client.deleteProjectBranch({ projectId: project_id, branchId: branch_id });
    assert.equal(data.branch.id, branch_id);
    await settle();
    assert.equal(await refused(client.getProjectBranch(project_id, branch_id)), 404);
    assert.equal((await client.deleteProjectBranch({ projectId: project_id, branchId: branch_id })).status, 204);
  },
  recoverProjectBranch: async ({ client, project_id, branch_id, endpoint_id }) => {
    const before = (await client.listProjectBranchEndpoints(project_id, branch_id)).data.endpoints;
    await client.deleteProjectBranch({ projectId: project_id, branchId: branch_id });
    const { data } = await client.listProjectBranches({ projectId: project_id, include_deleted: true });
    assert.equal(data.branches.find(({ id }) => id === branch_id)?.recovery?.deletion_method, 'user');
    const recovered = (await client.recoverProjectBranch(project_id, branch_id)).data;
    assert.equal(recovered.branch.id, branch_id);
    assert.deepEqual(
      recovered.endpoints?.map(({ host }) => host),
      before.map(({ host }) => host),
    );
    assert.equal((await client.getProjectEndpoint(project_id, endpoint_id)).status, 200);
  },
  restoreProjectBranch: async ({ client, project_id, branch_id, main_id, settle }) => {
    const restore = { source_branch_id: main_id, preserve_under_name: 'as it was' };
    await client.restoreProjectBranch(project_id, branch_id, restore);
    await settle();
    const { branches: left } = (await client.listProjectBranches({ projectId: project_id })).data;
    assert.deepEqual(names(left), ['as it was', 'child', 'main']);
    assert.ok(left.find(({ id }) => id === branch_id)?.last_reset_at);
  },
  setDefaultProjectBranch: async ({ client, project_id, branch_id, main_id }) => {
    await client.setDefaultProjectBranch(project_id, branch_id);
    const { branches: all } = (await client.listProjectBranches({ projectId: project_id })).data;
    assert.deepEqual(
      all.map(({ id, default: chosen }) => [id, chosen]).sort(),
      [
        [branch_id, true],
        [main_id, false],
      ].sort(),
    );
  },
};

const maskingState = async ({ client, project_id }: ClientWorld, branch_id: string) =>
  (await client.getAnonymizedBranchStatus(project_id, branch_id)).data.state;

const maskedBranches: Changes = {
  createProjectBranchAnonymized: async (world) => {
    const { client, project_id, main_id, settle } = world;
    const { data } = await client.createProjectBranchAnonymized(project_id, {
      branch_create: { branch: { name: 'masked', parent_id: main_id } },
      masking_rules: MASKING_RULES,
      start_anonymization: true,
    });
    assert.equal(await maskingState(world, data.branch.id), 'created');
    await settle();
    assert.equal(await maskingState(world, data.branch.id), 'anonymized');
  },
  updateMaskingRules: async ({ client, project_id, mask }) => {
    const id = await mask();
    await client.updateMaskingRules(project_id, id, { masking_rules: MASKING_RULES });
    assert.deepEqual((await client.getMaskingRules(project_id, id)).data.masking_rules, MASKING_RULES);
  },
  startAnonymization: async (world) => {
    const id = await world.mask();
    assert.equal(await maskingState(world, id), 'initialized');
    await world.client.startAnonymization(world.project_id, id);
    await world.settle();
    assert.equal(await maskingState(world, id), 'anonymized');
  },
};

const snapshots: Changes = {
  createSnapshot: async ({ client, project_id, main_id, settle }) => {
    const expires_at = new Date(Math.ceil(Date.now() / 1000) * 1000 + 3_600_000).toISOString();
    const wanted = { projectId: project_id, branchId: main_id, name: 'release 1 & 2', expires_at };
    const { data } = await client.createSnapshot(wanted);
    await settle();
    const { snapshots: all } = (await client.listSnapshots(project_id)).data;
    const found = all.find(({ id }) => id === data.snapshot.id);
    assert.equal(found?.name, 'release 1 & 2');
    assert.equal(Date.parse(found!.expires_at!), Date.parse(expires_at));
  },
  updateSnapshot: async ({ client, project_id, snapshot_id }) => {
    await client.updateSnapshot(project_id, snapshot_id, { snapshot: { name: 'renamed' } });
    assert.deepEqual(names((await client.listSnapshots(project_id)).data.snapshots), ['renamed']);
  },
  deleteSnapshot: async ({ client, project_id, snapshot_id, settle }) => {
    assert.equal((await client.deleteSnapshot(project_id, snapshot_id)).status, 202);
    await settle();
    assert.deepEqual((await client.listSnapshots(project_id)).data.snapshots, []);
  },
  restoreSnapshot: async ({ client, project_id, snapshot_id, settle }) => {
    const where = { projectId: project_id, snapshotId: snapshot_id };
    const { data } = await client.restoreSnapshot(where, { name: 'restored' });
    await settle();
    const { branch } = (await client.getProjectBranch(project_id, data.branch.id)).data;
    assert.deepEqual([branch.name, branch.restored_from], ['restored', snapshot_id]);
  },
  finalizeRestoreBranch: async ({ client, project_id, snapshot_id, main_id, settle }) => {
    const where = { projectId: project_id, snapshotId: snapshot_id };
    const { data } = await client.restoreSnapshot(where, { target_branch_id: main_id });
    await settle();
    await client.finalizeRestoreBranch(project_id, data.branch.id, { name: 'replaced' });
    await settle();
    const nameOf = async (id: string) => (await client.getProjectBranch(project_id, id)).data.branch.name;
    assert.deepEqual([await nameOf(data.branch.id), await nameOf(main_id)], ['main', 'replaced']);
  },
  setSnapshotSchedule: async ({ client, project_id, main_id }) => {
    const schedule = [{ frequency: 'weekly', day: 1, hour: 3, retention_seconds: 86_400 }];
    await client.setSnapshotSchedule(project_id, main_id, { schedule });
    assert.deepEqual((await client.getSnapshotSchedule(project_id, main_id)).data.schedule, schedule);
  },
};

const stateOf = async ({ client, project_id, endpoint_id }: ClientWorld) =>
  (await client.getProjectEndpoint(project_id, endpoint_id)).data.endpoint.current_state;

const endpoints: Changes = {
  createProjectEndpoint: async ({ client, project_id, branch_id }) => {
    const { data } = await client.createProjectEndpoint(project_id, {
      endpoint: { branch_id, type: EndpointType.ReadOnly, settings: { pg_settings: { work_mem: '8MB' } } },
    });
    const { data: all } = await client.listProjectBranchEndpoints(project_id, branch_id);
    const found = all.endpoints.find(({ id }) => id === data.endpoint.id);
    assert.deepEqual([found?.type, found?.settings.pg_settings], ['read_only', { work_mem: '8MB' }]);
  },
  updateProjectEndpoint: async ({ client, project_id, endpoint_id }) => {
    const endpoint = { autoscaling_limit_min_cu: 0.5, autoscaling_limit_max_cu: 2, suspend_timeout_seconds: 120 };
    await client.updateProjectEndpoint(project_id, endpoint_id, { endpoint });
    const { endpoint: found } = (await client.getProjectEndpoint(project_id, endpoint_id)).data;
    assert.deepEqual({ ...found, ...endpoint }, found);
  },
  deleteProjectEndpoint: async ({ client, project_id, endpoint_id, settle }) => {
    await client.deleteProjectEndpoint(project_id, endpoint_id);
    await settle();
    assert.equal(await refused(client.getProjectEndpoint(project_id, endpoint_id)), 404);
  },
  startProjectEndpoint: async (world) => {
    const { client, project_id, endpoint_id, settle } = world;
    await client.suspendProjectEndpoint(project_id, endpoint_id);
    await settle();
    const { data } = await client.startProjectEndpoint(project_id, endpoint_id);
    assert.deepEqual([data.endpoint.pending_state, data.operations[0]?.action], ['active', 'start_compute']);
    await settle();
    assert.equal(await stateOf(world), 'active');
  },
  suspendProjectEndpoint: async (world) => {
    const { client, project_id, endpoint_id, settle } = world;
    const { data } = await client.suspendProjectEndpoint(project_id, endpoint_id);
    assert.deepEqual([data.endpoint.pending_state, data.operations[0]?.action], ['idle', 'suspend_compute']);
    await settle();
    assert.equal(await stateOf(world), 'idle');
  },
  restartProjectEndpoint: async (world) => {
    const { client, project_id, endpoint_id, settle } = world;
    const { data } = await client.restartProjectEndpoint(project_id, endpoint_id);
    assert.deepEqual(
      data.operations.map(({ action }) => action),
      ['suspend_compute', 'start_compute'],
    );
    await settle();
    assert.equal(await stateOf(world), 'active');
  },
};

const rolesAndDatabases: Changes = {
  createProjectBranchRole: async ({ client, project_id, branch_id }) => {
    const name = 'a role/with % signs';
    const { data } = await client.createProjectBranchRole(project_id, branch_id, { role: { name } });
    const { data: shown } = await client.getProjectBranchRolePassword(project_id, branch_id, name);
    assert.equal(shown.password, data.role.password);
    assert.equal((await client.getProjectBranchRole(project_id, branch_id, name)).data.role.name, name);
  },
  deleteProjectBranchRole: async ({ client, project_id, branch_id }) => {
    assert.equal((await client.deleteProjectBranchRole(project_id, branch_id, 'spare')).data.role.name, 'spare');
    assert.equal(await refused(client.getProjectBranchRole(project_id, branch_id, 'spare')), 404);
    assert.equal((await client.deleteProjectBranchRole(project_id, branch_id, 'spare')).status, 204);
  },
  resetProjectBranchRolePassword: async ({ client, project_id, branch_id }) => {
    const shown = async () => (await client.getProjectBranchRolePassword(project_id, branch_id, 'spare')).data.password;
    const before = await shown();
    const { data } = await client.resetProjectBranchRolePassword(project_id, branch_id, 'spare');
    assert.equal(await shown(), data.role.password);
    assert.notEqual(data.role.password, before);
    assert.ok(data.role.password!.length >= PASSWORD_LENGTH);
  },
  createProjectBranchDatabase: async ({ client, project_id, branch_id, role }) => {
    const name = 'sales/2026 "é"';
    await client.createProjectBranchDatabase(project_id, branch_id, { database: { name, owner_name: role } });
    const { database } = (await client.getProjectBranchDatabase(project_id, branch_id, name)).data;
    assert.deepEqual([database.name, database.owner_name], [name, role]);
  },
  updateProjectBranchDatabase: async ({ client, project_id, branch_id }) => {
    const change = { database: { name: 'renamed', owner_name: 'spare' } };
    await client.updateProjectBranchDatabase(project_id, branch_id, 'spare', change);
    const { databases } = (await client.listProjectBranchDatabases(project_id, branch_id)).data;
    assert.equal(databases.find(({ name }) => name === 'renamed')?.owner_name, 'spare');
    assert.equal(await refused(client.getProjectBranchDatabase(project_id, branch_id, 'spare')), 404);
  },
  deleteProjectBranchDatabase: async ({ client, project_id, branch_id }) => {
    const { data } = await client.deleteProjectBranchDatabase(project_id, branch_id, 'spare');
    assert.equal(data.database.name, 'spare');
    assert.equal(await refused(client.getProjectBranchDatabase(project_id, branch_id, 'spare')), 404);
  },
};

/** Of each method that changes something and is served: what it is used for, and that the world is changed as it should. */
export const CLIENT_CHANGES: Changes = {
  ...keys,
  ...organizations,
  ...projects,
  ...branches,
  ...maskedBranches,
  ...snapshots,
  ...endpoints,
  ...rolesAndDatabases,
};
