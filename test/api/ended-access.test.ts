import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { startSecondApi, startTestApi, type TestApi } from '../support/api-server.ts';
import { addKey, addOrganization, addPerson } from '../support/people.ts';

/** Clients of each process that ask all the time. */
const CLIENTS = 5;
const REQUESTS_MAX = 500;

describe('access that ends in one process', () => {
  let api: TestApi;
  let second: TestApi;
  before(async () => {
    api = await startTestApi();
    second = await startSecondApi(api);
  });
  after(async () => {
    await second?.close();
    await api?.close();
  });

  const createProject = async () => (await api.call('POST', '/projects', { body: { project: {} } })).body.project;

  /** Whoever has the key asks both processes for the project all the time, until it is refused; then `end` was answered. */
  const assertEnds = async (project_id: string, key: string, end: () => Promise<{ status: number }>) => {
    assert.equal((await second.call('GET', `/projects/${project_id}`, { key })).status, 200);
    let ended = false;
    let late = 0;
    const ask = async (process: TestApi) => {
      for (let count = 0; count < REQUESTS_MAX; count += 1) {
        const after_end = ended;
        const { status } = await process.call('GET', `/projects/${project_id}`, { key });
        if (status !== 200) return status;
        if (after_end) late += 1;
      }
      return assert.fail('access never ended');
    };
    const asked = Array.from({ length: CLIENTS }, () => [ask(api), ask(second)]).flat();
    const all = Promise.all(asked);
    const [{ status }, refusals] = await Promise.all([
      end().finally(() => {
        ended = true;
      }),
      all,
    ]);
    assert.ok(status < 300, `${status}`);
    assert.equal(late, 0, 'a request that began later was let in');
    return [...new Set(refusals)];
  };

  it('has ended in the others for a key that is revoked', async () => {
    const project = await createProject();
    const path = `/organizations/${project.org_id}/api_keys`;
    for (const body of [{ key_name: 'ours' }, { key_name: 'ci', project_id: project.id }]) {
      const { body: made } = await api.call('POST', path, { body });
      const end = () => api.call('DELETE', `${path}/${made.id}`);
      assert.deepEqual(await assertEnds(project.id, made.key, end), [401]);
    }
  });

  it('has ended in the others for a person who is removed', async () => {
    const project = await createProject();
    const person = await addPerson(api, { organization_id: project.org_id, role: 'member' });
    const path = `/organizations/${project.org_id}/members`;
    const { members } = (await api.call('GET', path)).body;
    const { member } = members.find(({ user }: { user: { email: string } }) => user.email === person.email);
    assert.deepEqual(await assertEnds(project.id, person.key, () => api.call('DELETE', `${path}/${member.id}`)), [404]);
  });

  it('has ended in the others for a person with whom the project is no longer shared', async () => {
    const project = await createProject();
    const person = await addPerson(api);
    const path = `/projects/${project.id}/permissions`;
    const { body } = await api.call('POST', path, { body: { email: person.email } });
    assert.deepEqual(await assertEnds(project.id, person.key, () => api.call('DELETE', `${path}/${body.id}`)), [404]);
  });

  it('has ended in the others for the old organization of a project that went to another one', async () => {
    const other = await addOrganization(api);
    const taker = await addPerson(api, { organization_id: other, role: 'member' });
    const keys = {
      personal: async () => api.key,
      organization: (org_id: string) => addKey(api, taker.id, { organization_id: org_id }),
      project: (org_id: string, id: string) => addKey(api, taker.id, { organization_id: org_id, project_id: id }),
    };
    for (const [kind, keyOf] of Object.entries(keys)) {
      const project = await createProject();
      const { body: request } = await api.call('POST', `/projects/${project.id}/transfer_requests`);
      const end = () => api.call('PUT', `/projects/${project.id}/transfer_requests/${request.id}`, { key: taker.key });
      const refused = await assertEnds(project.id, await keyOf(project.org_id, project.id), end);
      // A key of the project ends in the same moment as it has nothing to do with it any more.
      const allowed = kind === 'project' ? [401, 404] : [404];
      assert.ok(
        refused.every((status) => allowed.includes(status)),
        `${kind}: ${refused}`,
      );
    }
  });
});
