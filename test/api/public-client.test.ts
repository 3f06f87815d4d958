import assert from 'node:assert/strict';
import type { AddressInfo } from 'node:net';
import { after, before, describe, it } from 'node:test';
import { createApiClient, MemberRole } from '@neondatabase/api-client';
import { createUser } from '../../src/actions/create-user.ts';
import { startTestApi, type TestApi } from '../support/api-server.ts';

/** What its users write against it, over a real connection. */
describe('the public API client, unmodified', () => {
  let api: TestApi;
  let baseURL: string;
  before(async () => {
    api = await startTestApi();
    await api.app.listen({ host: '127.0.0.1', port: 0 });
    baseURL = `http://127.0.0.1:${(api.app.server.address() as AddressInfo).port}/api/v2`;
  });
  after(() => api?.close());

  const clientOf = (apiKey: string) => createApiClient({ apiKey, baseURL });
  const refusal = (answer: Promise<unknown>): Promise<[status: number, message: string]> =>
    answer.then(
      () => assert.fail('it should have been refused'),
      ({ response }) => [response.status, response.data.message],
    );
  const makeUser = async (email: string) => {
    const { secret, organization_ids } = await createUser(api.context, { email, name: email, key_name: 'first' });
    return { client: clientOf(secret), org_ids: organization_ids };
  };

  it('invites a colleague, makes an admin of the colleague, who takes over, and leaves', async () => {
    const owner = await makeUser('owner-1@example.test');
    const org_id = owner.org_ids[0]!;
    await owner.client.createOrganizationInvitations(org_id, {
      invitations: [{ email: 'colleague@example.test', role: MemberRole.Member }],
    });
    const { data: invited } = await owner.client.getOrganizationInvitations(org_id);
    assert.deepEqual(
      invited.invitations.map(({ email, role }) => [email, role]),
      [['colleague@example.test', 'member']],
    );
    const colleague = await makeUser('colleague@example.test');
    assert.deepEqual(colleague.org_ids, [org_id]);
    const { data: page } = await owner.client.getOrganizationMembers({ orgId: org_id });
    const idOf = (address: string) => page.members.find(({ user }) => user.email === address)!.member.id;
    const [owner_id, colleague_id] = [idOf('owner-1@example.test'), idOf('colleague@example.test')];
    const [last] = await refusal(owner.client.removeOrganizationMember(org_id, owner_id));
    assert.equal(last, 422);
    await owner.client.updateOrganizationMember(org_id, colleague_id, { role: MemberRole.Admin });
    assert.equal((await colleague.client.getOrganizationMember(org_id, colleague_id)).data.role, 'admin');
    await owner.client.removeOrganizationMember(org_id, owner_id);
    assert.deepEqual((await owner.client.getCurrentUserOrganizations()).data.organizations, []);
    assert.deepEqual(await refusal(owner.client.getOrganization(org_id)), [404, 'organization not found']);
  });

  it('shares a project, offers it, and gives it to another organization with its keys gone', async () => {
    const [giver, taker] = [await makeUser('giver@example.test'), await makeUser('taker@example.test')];
    const { data: made } = await giver.client.createProject({ project: { name: 'shop' } });
    const project_id = made.project.id;
    const from = giver.org_ids[0]!;
    const { data: scoped } = await giver.client.createOrgApiKey(from, { key_name: 'ci', project_id });
    assert.equal(scoped.project_id, project_id);
    const ci = clientOf(scoped.key);
    assert.equal((await ci.getProject(project_id)).data.project.org_id, from);

    const { data: granted } = await giver.client.grantPermissionToProject(project_id, { email: 'taker@example.test' });
    const { data: shared } = await taker.client.listSharedProjects({});
    assert.deepEqual(
      shared.projects.map(({ id }) => id),
      [project_id],
    );
    await giver.client.revokePermissionFromProject(project_id, granted.id);
    assert.deepEqual((await giver.client.listProjectPermissions(project_id)).data.project_permissions, []);
    assert.deepEqual((await taker.client.listSharedProjects({})).data.projects, []);

    const { data: request } = await giver.client.createProjectTransferRequest(project_id, { ttl_seconds: 60 });
    const { status } = await taker.client.acceptProjectTransferRequest(project_id, request.id, {});
    assert.equal(status, 204);
    assert.equal((await taker.client.getProject(project_id)).data.project.org_id, taker.org_ids[0]);
    assert.equal((await refusal(ci.getProject(project_id)))[0], 401);
    assert.deepEqual((await giver.client.listOrgApiKeys(from)).data, []);
  });

  it('gives several projects at once, and nobody who is no member of the other organization can', async () => {
    const [giver, taker] = [await makeUser('giver-2@example.test'), await makeUser('taker-2@example.test')];
    const [from, to] = [giver.org_ids[0]!, taker.org_ids[0]!];
    const projects = await Promise.all(['one', 'two'].map((name) => giver.client.createProject({ project: { name } })));
    const transfer = { destination_org_id: to, project_ids: projects.map(({ data }) => data.project.id) };
    const refused = await refusal(giver.client.transferProjectsFromOrgToOrg(from, transfer));
    assert.deepEqual(refused, [404, 'organization not found']);
    await taker.client.createOrganizationInvitations(to, {
      invitations: [{ email: 'giver-2@example.test', role: MemberRole.Member }],
    });
    await giver.client.transferProjectsFromOrgToOrg(from, transfer);
    const { data } = await taker.client.listProjects({ org_id: to });
    assert.deepEqual(data.projects.map(({ name }) => name).sort(), ['one', 'two']);
  });
});
