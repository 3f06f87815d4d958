import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { createUser } from '../../src/actions/create-user.ts';
import { startTestApi, type TestApi } from '../support/api-server.ts';
import { addOrganization, addPerson, type Person } from '../support/people.ts';

interface ShownMember {
  readonly member: { readonly id: string; readonly user_id: string; readonly role: string };
  readonly user: { readonly email: string };
}

describe('members of an organization', () => {
  let api: TestApi;
  before(async () => {
    api = await startTestApi();
  });
  after(() => api?.close());

  /** An organisation with an admin, and a member. */
  const found = async () => {
    const org_id = await addOrganization(api);
    const admin = await addPerson(api, { organization_id: org_id, role: 'admin' });
    const member = await addPerson(api, { organization_id: org_id, role: 'member' });
    const path = `/organizations/${org_id}/members`;
    const shown = async (): Promise<ShownMember[]> => (await api.call('GET', path, { key: admin.key })).body.members;
    const idOf = async (person: Person) => {
      const { member: row } = (await shown()).find(({ member: { user_id } }) => user_id === person.id)!;
      return `${path}/${row.id}`;
    };
    return { org_id, admin, member, path, shown, idOf };
  };

  it('are listed with their addresses, and shown one by one', async () => {
    const { admin, member, path, shown, idOf } = await found();
    assert.deepEqual(
      new Map((await shown()).map(({ member: { role }, user }) => [user.email, role])),
      new Map([
        [member.email, 'member'],
        [admin.email, 'admin'],
      ]),
    );
    const { body } = await api.call('GET', await idOf(member), { key: member.key });
    assert.deepEqual([body.user_id, body.role], [member.id, 'member']);
    const nobody = await api.call('GET', `${path}/00000000-0000-4000-8000-000000000000`, { key: admin.key });
    assert.deepEqual([nobody.status, nobody.body.message], [404, 'member not found']);
  });

  it('are listed page by page, each once, whatever they are sorted by', async () => {
    const { org_id, admin, path } = await found();
    for (let count = 0; count < 5; count += 1) await addPerson(api, { organization_id: org_id, role: 'member' });
    for (const sort_by of ['email', 'role', 'joined_at']) {
      for (const sort_order of ['asc', 'desc']) {
        const pages: string[][] = [];
        let next: string | undefined = '';
        while (next !== undefined) {
          const query = `sort_by=${sort_by}&sort_order=${sort_order}&limit=3${next && `&cursor=${next}`}`;
          const { body } = await api.call('GET', `${path}?${query}`, { key: admin.key });
          pages.push(body.members.map(({ user }: ShownMember) => user.email));
          next = body.pagination.next;
        }
        assert.deepEqual(
          pages.map((page) => page.length),
          [3, 3, 1],
        );
        const all = pages.flat();
        assert.equal(new Set(all).size, 7);
        const sorted = sort_order === 'asc' ? all.toSorted() : all.toSorted().reverse();
        if (sort_by === 'email') assert.deepEqual(all, sorted);
      }
    }
    const { body } = await api.call('GET', `${path}?limit=1`, { key: admin.key });
    const mixed = await api.call('GET', `${path}?sort_by=email&cursor=${body.pagination.next}`, { key: admin.key });
    assert.equal(mixed.status, 400);
    const forged = Buffer.from(JSON.stringify(['email', 'a', 'no id'])).toString('base64url');
    assert.equal((await api.call('GET', `${path}?cursor=${forged}`, { key: admin.key })).status, 400);
  });

  it('get and lose what an admin may do at the next request', async () => {
    const { org_id, admin, member, idOf } = await found();
    const makeKey = () =>
      api.call('POST', `/organizations/${org_id}/api_keys`, { key: member.key, body: { key_name: 'x' } });
    assert.equal((await makeKey()).status, 403);
    const promoted = await api.call('PATCH', await idOf(member), { key: admin.key, body: { role: 'admin' } });
    assert.equal(promoted.body.role, 'admin');
    assert.equal((await makeKey()).status, 200);
    const demoted = await api.call('PATCH', await idOf(member), { key: admin.key, body: { role: 'editor' } });
    assert.equal(demoted.body.role, 'member');
    assert.equal((await makeKey()).status, 403);
    const viewer = await api.call('PATCH', await idOf(member), { key: admin.key, body: { role: 'viewer' } });
    assert.equal(viewer.status, 501);
  });

  it('lose all access when they are removed, and so do their keys', async () => {
    const { org_id, admin, member, idOf } = await found();
    const { body } = await api.call('POST', '/projects', { key: admin.key, body: { project: {} } });
    const read = async () => (await api.call('GET', `/projects/${body.project.id}`, { key: member.key })).status;
    assert.equal(await read(), 200);
    const removed = await api.call('DELETE', await idOf(member), { key: admin.key });
    assert.deepEqual([removed.status, removed.body], [200, {}]);
    assert.equal(await read(), 404);
    assert.equal((await api.call('GET', `/organizations/${org_id}`, { key: member.key })).status, 404);
    const organizations = await api.call('GET', '/users/me/organizations', { key: member.key });
    assert.deepEqual(organizations.body.organizations, []);
  });

  it('may leave, and take out nobody else', async () => {
    const { admin, member, idOf, shown } = await found();
    const [own, other] = [await idOf(member), await idOf(admin)];
    assert.equal((await api.call('DELETE', other, { key: member.key })).status, 403);
    assert.equal((await api.call('DELETE', own, { key: member.key })).status, 200);
    assert.equal((await shown()).length, 1);
  });

  it('always have an admin among them', async () => {
    const { admin, member, idOf } = await found();
    const [own, other] = [await idOf(admin), await idOf(member)];
    for (const attempt of [
      () => api.call('DELETE', own, { key: admin.key }),
      () => api.call('PATCH', own, { key: admin.key, body: { role: 'member' } }),
    ]) {
      const { status, body } = await attempt();
      assert.deepEqual([status, /the last admin/.test(body.message)], [422, true]);
    }
    await api.call('PATCH', other, { key: admin.key, body: { role: 'admin' } });
    const both = await Promise.all([
      api.call('DELETE', own, { key: admin.key }),
      api.call('DELETE', other, { key: member.key }),
    ]);
    assert.deepEqual(both.map(({ status }) => status).sort(), [200, 422]);
  });
});

describe('invitations', () => {
  let api: TestApi;
  let org_id: string;
  let owner: string;
  before(async () => {
    api = await startTestApi();
    org_id = (await api.call('GET', '/users/me/organizations')).body.organizations[0].id;
    owner = (await api.call('GET', '/users/me')).body.id;
  });
  after(() => api?.close());

  const invite = (email: string, role = 'member') =>
    api.call('POST', `/organizations/${org_id}/invitations`, { body: { invitations: [{ email, role }] } });
  const list = async () => (await api.call('GET', `/organizations/${org_id}/invitations`)).body.invitations;
  const organizationsOf = async (key: string): Promise<string[]> => {
    const { body } = await api.call('GET', '/users/me/organizations', { key });
    return body.organizations.map(({ id }: { id: string }) => id);
  };

  it('make a member at once of who has an account', async () => {
    const person = await addPerson(api);
    const { status, body } = await invite(person.email.toUpperCase(), 'admin');
    assert.equal(status, 200);
    assert.deepEqual(
      [body.invitations[0].email, body.invitations[0].role, body.invitations[0].invited_by],
      [person.email, 'admin', owner],
    );
    assert.deepEqual(await organizationsOf(person.key), [org_id]);
    const again = await invite(person.email);
    assert.deepEqual([again.status, /already a member/.test(again.body.message)], [409, true]);
  });

  it('wait for the account of who has none, with the role that was given last', async () => {
    await invite('new@example.test', 'admin');
    await invite('New@Example.Test', 'member');
    const open = (await list()).filter(({ email }: { email: string }) => email === 'new@example.test');
    assert.deepEqual(
      open.map(({ role }: { role: string }) => role),
      ['member'],
    );
    const made = await createUser(api.context, { email: 'NEW@example.test', name: 'New', key_name: 'first' });
    assert.deepEqual(made.organization_ids, [org_id]);
    assert.deepEqual(await organizationsOf(made.secret), [org_id]);
    const forbidden = await api.call('DELETE', `/organizations/${org_id}/invitations/${open[0].id}`, {
      key: made.secret,
    });
    assert.equal(forbidden.status, 403);
  });

  it('can be taken back until they are accepted', async () => {
    const { body } = await invite('mistake@example.test');
    const path = `/organizations/${org_id}/invitations/${body.invitations[0].id}`;
    assert.equal((await api.call('DELETE', path)).status, 200);
    assert.equal((await api.call('DELETE', path)).status, 404);
    const made = await createUser(api.context, { email: 'mistake@example.test', name: '', key_name: 'first' });
    assert.equal(made.organization_ids.includes(org_id), false);
    const person = await addPerson(api);
    const accepted = (await invite(person.email)).body.invitations[0];
    assert.equal((await api.call('DELETE', `/organizations/${org_id}/invitations/${accepted.id}`)).status, 404);
  });

  it('meet a user who is made at the same time', async () => {
    for (let round = 0; round < 10; round += 1) {
      const email = `same-time-${round}@example.test`;
      const [, made] = await Promise.all([
        invite(email),
        createUser(api.context, { email, name: '', key_name: 'first' }),
      ]);
      assert.equal((await organizationsOf(made.secret)).includes(org_id), true, email);
    }
  });

  it('are all made, or none', async () => {
    const person = await addPerson(api, { organization_id: org_id, role: 'member' });
    const { status } = await api.call('POST', `/organizations/${org_id}/invitations`, {
      body: {
        invitations: [
          { email: 'half@example.test', role: 'member' },
          { email: person.email, role: 'member' },
        ],
      },
    });
    assert.equal(status, 409);
    assert.equal(
      (await list()).some(({ email }: { email: string }) => email === 'half@example.test'),
      false,
    );
  });
});

describe('a user that is made', () => {
  let api: TestApi;
  before(async () => {
    api = await startTestApi();
  });
  after(() => api?.close());

  it('has an organization of its own where nobody invited it, and a key', async () => {
    const request = { email: 'someone@example.test', name: 'Some One', organization: 'Blue Team!', key_name: 'first' };
    const { secret, organization_ids } = await createUser(api.context, request);
    const { body: me } = await api.call('GET', '/users/me', { key: secret });
    assert.deepEqual([me.email, me.name], ['someone@example.test', 'Some One']);
    const { body: organization } = await api.call('GET', `/organizations/${organization_ids[0]}`, { key: secret });
    assert.deepEqual([organization.name, organization.handle], ['Blue Team!', `blue-team-${organization.id}`]);
    const { body } = await api.call('POST', '/projects', { key: secret, body: { project: {} } });
    assert.equal(body.project.org_id, organization.id);
    assert.equal((await api.call('GET', `/projects/${body.project.id}`)).status, 404);
  });

  it('has an address that nobody else has', async () => {
    await assert.rejects(
      createUser(api.context, { email: 'OWNER@example.test', name: '', key_name: 'first' }),
      /user already exists; email:"OWNER@example.test"/,
    );
  });
});
