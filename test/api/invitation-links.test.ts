import assert from 'node:assert/strict';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { after, before, describe, it } from 'node:test';
import { SMTPServer } from 'smtp-server';
import { createUser } from '../../src/actions/create-user.ts';
import { openSmtp } from '../../src/drivers/mail/smtp.ts';
import { startTestApi, type TestApi } from '../support/api-server.ts';
import { newPassword, openBrowser } from '../support/browser.ts';
import { addOrganization, addPerson } from '../support/people.ts';
import { createSleepingProject } from '../support/project.ts';

const tokenIn = (text: string): string => /\/login\/link#([\w-]{43})/.exec(text)![1]!;

async function newOrganization(api: TestApi) {
  const id = await addOrganization(api);
  const admin = await addPerson(api, { organization_id: id, role: 'admin' });
  const invite = async (email: string, role = 'member') => {
    const body = { invitations: [{ email, role }] };
    const answer = await api.call('POST', `/organizations/${id}/invitations`, { key: admin.key, body });
    assert.equal(answer.status, 200, JSON.stringify(answer.body));
    return answer.body.invitations[0];
  };
  const members = async (): Promise<string[]> =>
    (await api.call('GET', `/organizations/${id}/members`, { key: admin.key })).body.members
      .map(({ user }: { user: { email: string } }) => user.email)
      .filter((email: string) => email !== admin.email);
  return { id, admin, invite, members };
}

describe('an invitation by a link that is shown', () => {
  let api: TestApi;
  before(async () => {
    api = await startTestApi();
  });
  after(() => api?.close());

  it('makes the account, which is a member and can log in', async () => {
    const { invite, members } = await newOrganization(api);
    const { link } = await invite('new@example.test');
    const [token, password] = [tokenIn(link), newPassword()];
    const browser = openBrowser(api);
    const shown = await browser.post('/link', { token });
    assert.deepEqual(shown.body, { email: 'new@example.test', organization: 'Elsewhere', has_account: false });
    assert.equal((await browser.post('/use-link', { token })).status, 400);
    assert.equal((await browser.post('/use-link', { token, password, name: 'New' })).status, 200);
    assert.deepEqual(await members(), ['new@example.test']);
    assert.equal((await browser.signIn('new@example.test', password)).status, 200);
    assert.equal((await browser.ask('GET', '/api/v2/users/me')).body.name, 'New');
    const again = await openBrowser(api).post('/use-link', { token, password: newPassword() });
    assert.equal(again.status, 410);
  });

  it('opens nothing but this organization: whoever invites is shown the link, too, and could use it', async () => {
    const victim = 'victim@example.test';
    const other = await newOrganization(api);
    await other.invite(victim, 'admin');
    const project = await createSleepingProject(api);
    await api.call('POST', `/projects/${project.id}/permissions`, { body: { email: victim } });

    const { invite, members } = await newOrganization(api);
    const { link } = await invite(victim);
    const [browser, password] = [openBrowser(api), newPassword()];
    await browser.post('/use-link', { token: tokenIn(link), password });
    await browser.signIn(victim, password);
    assert.deepEqual(await members(), [victim]);
    assert.deepEqual(await other.members(), []);
    assert.equal((await browser.ask('GET', `/api/v2/projects/${project.id}`)).status, 404);
    assert.deepEqual((await browser.ask('GET', '/api/v2/projects/shared')).body.projects, []);
    // Nor is it a member at once of those that invite the address later.
    const third = await newOrganization(api);
    const { link: later } = await third.invite(victim);
    assert.deepEqual(await third.members(), []);
    // It is one where it was given the link, logged in.
    const stranger = await openBrowser(api).post('/use-link', { token: tokenIn(later), password: newPassword() });
    assert.deepEqual([stranger.status, /log in with it/.test(stranger.body.message)], [409, true]);
    assert.equal((await browser.post('/use-link', { token: tokenIn(later) })).status, 200);
    assert.deepEqual(await third.members(), [victim]);
  });

  it('is worth nothing once it was taken back, replaced, or has expired', async () => {
    const { id, admin, invite, members } = await newOrganization(api);
    const use = async (link: string) =>
      (await openBrowser(api).post('/use-link', { token: tokenIn(link), password: newPassword() })).status;
    const withdrawn = await invite('withdrawn@example.test');
    await api.call('DELETE', `/organizations/${id}/invitations/${withdrawn.id}`, { key: admin.key });
    const first = await invite('twice@example.test');
    const second = await invite('twice@example.test');
    const expired = await invite('expired@example.test');
    await api.store.store
      .updateTable('coppice_auth.links')
      .set({ expires_at: new Date(Date.now() - 1) })
      .where('invitation_id', '=', expired.id)
      .execute();
    assert.deepEqual([await use(withdrawn.link), await use(first.link), await use(expired.link)], [410, 410, 410]);
    assert.deepEqual(await members(), []);
    assert.equal(await use(second.link), 200);
  });

  it('comes with no link for whoever has an account that somebody vouches for: a member at once', async () => {
    const { invite, members } = await newOrganization(api);
    await createUser(api.context, { email: 'known@example.test', name: '', key_name: 'first' });
    assert.equal((await invite('known@example.test')).link, undefined);
    assert.deepEqual(await members(), ['known@example.test']);
  });

  it('is in no list, and its secret not in the store', async () => {
    const { id, admin, invite } = await newOrganization(api);
    const token = tokenIn((await invite('listed@example.test')).link);
    const { body } = await api.call('GET', `/organizations/${id}/invitations`, { key: admin.key });
    assert.doesNotMatch(JSON.stringify(body), /link/);
    const { rows } = await api.store.pool.query('select links::text from coppice_auth.links');
    assert.ok(!JSON.stringify(rows).includes(token));
    assert.ok(!api.log.join('\n').includes(token));
  });
});

describe('an invitation by mail', () => {
  const letters: { from: string; to: string[]; text: string }[] = [];
  let server: SMTPServer;
  let refuse = false;
  let api: TestApi;
  before(async () => {
    server = new SMTPServer({
      disabledCommands: ['STARTTLS'],
      authOptional: true,
      onAuth: ({ username, password }, _session, done) =>
        username === 'user' && password === 'p@ss' ? done(null, { user: username }) : done(new Error('refused')),
      onData: (stream, { envelope }, done) => {
        const chunks: Buffer[] = [];
        stream.on('data', (chunk) => chunks.push(chunk));
        stream.on('end', () => {
          if (refuse) return done(new Error('not now'));
          const { mailFrom, rcptTo } = envelope;
          const text = Buffer.concat(chunks).toString();
          letters.push({ from: mailFrom ? mailFrom.address : '', to: rcptTo.map(({ address }) => address), text });
          done();
        });
      },
    });
    server.listen(0, '127.0.0.1');
    await once(server.server, 'listening');
    const { port } = server.server.address() as AddressInfo;
    const mail = openSmtp({ url: `smtp://user:p%40ss@127.0.0.1:${port}`, from: 'coppice@example.test' });
    api = await startTestApi({ mail });
  });
  after(async () => {
    await api?.close();
    await new Promise<void>((done) => server.close(() => done()));
  });

  it('shows the link to nobody else, so that the address is the person’s: all that it was invited to and shared with', async () => {
    const email = 'mailed@example.test';
    const other = await newOrganization(api);
    await other.invite(email);
    const { invite, members } = await newOrganization(api);
    const sent = await invite(email);
    assert.deepEqual([sent.link, sent.mail_sent], [undefined, true]);
    const letter = letters.at(-1)!;
    assert.deepEqual([letter.from, letter.to], ['coppice@example.test', [email]]);
    assert.match(letter.text, /^Subject: Invitation to Elsewhere on Coppice\r$/m);
    const browser = openBrowser(api);
    const password = newPassword();
    const token = tokenIn(letter.text.replaceAll('=\r\n', ''));
    assert.equal((await browser.post('/use-link', { token, password })).status, 200);
    assert.deepEqual([await members(), await other.members()], [[email], [email]]);
  });

  it('stays an invitation when the mail server does not take it', async () => {
    const { id, admin, invite } = await newOrganization(api);
    refuse = true;
    try {
      assert.equal((await invite('refused@example.test')).mail_sent, false);
    } finally {
      refuse = false;
    }
    const { body } = await api.call('GET', `/organizations/${id}/invitations`, { key: admin.key });
    assert.deepEqual(
      body.invitations.map(({ email }: { email: string }) => email),
      ['refused@example.test'],
    );
    assert.equal((await invite('refused@example.test')).mail_sent, true);
  });

  it('is not sent for ever: nobody fills mailboxes by inviting again and again', async () => {
    const { id, admin } = await newOrganization(api);
    const before = letters.length;
    const invitations = Array.from({ length: 100 }, (_, number) => ({
      email: `${number}@example.test`,
      role: 'member',
    }));
    const path = `/organizations/${id}/invitations`;
    const { body } = await api.call('POST', path, { key: admin.key, body: { invitations } });
    assert.ok(body.invitations.every(({ mail_sent }: { mail_sent: boolean }) => mail_sent));
    assert.equal(letters.length - before, 100);
    const again = await api.call('POST', path, { key: admin.key, body: { invitations: invitations.slice(0, 10) } });
    const sent = again.body.invitations.filter(({ mail_sent }: { mail_sent: boolean }) => mail_sent);
    assert.ok(sent.length < 10, `${sent.length}`);
    assert.equal(letters.length - before, 100 + sent.length);
    assert.equal((await (await newOrganization(api)).invite('0@example.test')).mail_sent, true);
  });

  it('goes to the one address, and has no header of a stranger, whatever the names are made of', async () => {
    const { id, admin } = await newOrganization(api);
    const before = letters.length;
    const addresses = ['a@example.test,b@example.test', 'a@example.test\r\nBcc: b@example.test', 'A <a@example.test>'];
    for (const email of addresses) {
      const body = { invitations: [{ email, role: 'member' }] };
      assert.equal((await api.call('POST', `/organizations/${id}/invitations`, { key: admin.key, body })).status, 400);
    }
    // Whatever else may come to take such an address, no letter is sent there.
    const mail = api.context.mail!;
    for (const to of [...addresses, '"a, b"@example.test', 'a@example.test>']) {
      await assert.rejects(mail({ to, subject: 'hello', text: 'hello' }), /not sent to such an address/, to);
    }
    assert.equal(letters.length, before);
    const name = 'Ours\r\nBcc: b@example.test\r\n\r\nbody';
    await mail({ to: 'a@example.test', subject: `Invitation to ${name}`, text: 'hello' });
    const { to, text } = letters.at(-1)!;
    assert.deepEqual(to, ['a@example.test']);
    assert.doesNotMatch(text.split('\r\n\r\n')[0]!, /^Bcc:/im);
  });
});
