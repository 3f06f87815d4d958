import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { resetLogin } from '../../src/actions/reset-login.ts';
import { startTestApi, type TestApi } from '../support/api-server.ts';
import { addPasswordPerson, codeOf, openBrowser } from '../support/browser.ts';

describe('a second factor', () => {
  let api: TestApi;
  before(async () => {
    api = await startTestApi();
  });
  after(() => api?.close());

  /** Somebody who has a password, and an authenticator whose code for this moment was used to enable it. */
  const addPerson = async () => {
    const { id, email, password, org_id } = await addPasswordPerson(api);
    const browser = openBrowser(api);
    await browser.signIn(email, password);
    const begun = await browser.post('/two-factor/enable', { password });
    assert.equal(begun.status, 200, JSON.stringify(begun.body));
    const { totpURI, backupCodes } = begun.body;
    const verified = await browser.post('/two-factor/verify-totp', { code: codeOf(totpURI) });
    assert.equal(verified.status, 200, JSON.stringify(verified.body));
    return { id, email, password, org_id, browser, uri: totpURI as string, backupCodes };
  };
  const me = async (browser: ReturnType<typeof openBrowser>) => (await browser.ask('GET', '/api/v2/users/me')).status;

  it('is asked for after the password, which alone opens nothing', async () => {
    const { email, password, browser, uri } = await addPerson();
    assert.equal(await me(browser), 200);
    const other = openBrowser(api);
    const first = await other.signIn(email, password);
    assert.deepEqual([first.status, first.body.twoFactorRedirect], [200, true]);
    assert.equal(other.cookies.has('coppice.session_token'), false);
    assert.equal(await me(other), 401);
    const wrong = await other.post('/two-factor/verify-totp', { code: '000000' });
    assert.deepEqual([wrong.status, wrong.body.message], [401, 'wrong code, or one that was used already']);
    assert.equal((await other.post('/two-factor/verify-totp', { code: codeOf(uri, 1) })).status, 200);
    assert.equal(await me(other), 200);
  });

  it('takes each code once, so that whoever looks on gains nothing', async () => {
    const { email, password, uri } = await addPerson();
    const code = codeOf(uri, 1);
    const first = openBrowser(api);
    await first.signIn(email, password);
    const onlooker = openBrowser(api);
    await onlooker.signIn(email, password);
    assert.equal((await first.post('/two-factor/verify-totp', { code })).status, 200);
    assert.equal((await onlooker.post('/two-factor/verify-totp', { code })).status, 401);
    assert.equal(await me(onlooker), 401);
  });

  it('takes one of two at once', async () => {
    const { email, password, uri } = await addPerson();
    const code = codeOf(uri, 1);
    const browsers = [openBrowser(api), openBrowser(api)];
    for (const browser of browsers) await browser.signIn(email, password);
    const answers = await Promise.all(browsers.map((browser) => browser.post('/two-factor/verify-totp', { code })));
    assert.deepEqual(answers.map(({ status }) => status).sort(), [200, 401]);
  });

  it('can be a backup code, once each', async () => {
    const { email, password, backupCodes } = await addPerson();
    for (const [code, status] of [
      [backupCodes[0], 200],
      [backupCodes[0], 401],
      [backupCodes[1], 200],
    ]) {
      const browser = openBrowser(api);
      await browser.signIn(email, password);
      assert.equal((await browser.post('/two-factor/verify-backup-code', { code })).status, status);
      assert.equal(await me(browser), status);
    }
  });

  it('is locked after too many wrong codes, whoever sends them and from wherever', async () => {
    const { email, password, uri } = await addPerson();
    const statuses: number[] = [];
    for (let round = 0; round < 3; round += 1) {
      const browser = openBrowser(api);
      await browser.signIn(email, password);
      for (let count = 0; count < 4; count += 1) {
        const code = String(round * 10 + count).padStart(6, '0');
        statuses.push((await browser.post('/two-factor/verify-totp', { code })).status);
      }
    }
    assert.deepEqual(statuses, [...Array(10).fill(401), 429, 429]);
    const browser = openBrowser(api);
    await browser.signIn(email, password);
    assert.equal((await browser.post('/two-factor/verify-totp', { code: codeOf(uri, 1) })).status, 429);
  });

  it('is not had by the cookie of the first step without a password, or once the login was reset', async () => {
    const { email, password, uri } = await addPerson();
    assert.equal((await openBrowser(api).post('/two-factor/verify-totp', { code: codeOf(uri, 1) })).status, 401);
    const waiting = openBrowser(api);
    await waiting.signIn(email, password);
    await resetLogin(api.context, email, { link: true, drop_second_factor: false });
    assert.equal((await waiting.post('/two-factor/verify-totp', { code: codeOf(uri, 1) })).status, 401);
    assert.equal(await me(waiting), 401);
  });

  it('is not asked for before a code was verified', async () => {
    const { email, password } = await addPasswordPerson(api);
    const browser = openBrowser(api);
    await browser.signIn(email, password);
    const refused = await browser.post('/two-factor/enable', { password: 'not the password' });
    assert.equal(refused.status, 403);
    assert.equal((await browser.post('/two-factor/enable', { password })).status, 200);
    const other = openBrowser(api);
    await other.signIn(email, password);
    assert.equal(await me(other), 200);
  });

  it('goes when its person says so with the password, or somebody on the machine', async () => {
    for (const end of ['person', 'machine'] as const) {
      const { email, password, browser } = await addPerson();
      if (end === 'machine') await resetLogin(api.context, email, { password, drop_second_factor: true });
      else {
        assert.equal((await browser.post('/two-factor/disable', { password: 'not the password' })).status, 403);
        assert.equal((await browser.post('/two-factor/disable', { password })).status, 200);
      }
      const other = openBrowser(api);
      await other.signIn(email, password);
      assert.equal(await me(other), 200);
    }
  });

  it('shows in the list of members', async () => {
    const { org_id, browser, email } = await addPerson();
    const { body } = await browser.ask('GET', `/api/v2/organizations/${org_id}/members`);
    assert.deepEqual(
      body.members.map(({ user }: { user: unknown }) => user),
      [{ email, has_mfa: true }],
    );
  });

  it('is in the audit log, without its secrets', async () => {
    const { id, email, password, uri, backupCodes } = await addPerson();
    const browser = openBrowser(api);
    await browser.signIn(email, password);
    await browser.post('/two-factor/verify-totp', { code: codeOf(uri, 1) });
    await browser.post('/two-factor/disable', { password });
    const rows = await api.store.store
      .selectFrom('audit_log')
      .selectAll()
      .where('user_id', '=', id)
      .orderBy('id')
      .execute();
    assert.deepEqual(
      rows.map(({ action, changes }) => [action, ...changes.map(({ noun, change }) => `${noun} ${change}`)]),
      [
        ['user.sign_in'],
        ['user.enable_two_factor', 'two_factor create'],
        ['user.verify_two_factor', 'two_factor update'],
        ['user.sign_in'],
        ['user.disable_two_factor', 'two_factor delete'],
      ],
    );
    const text = JSON.stringify(rows);
    for (const secret of [new URL(uri).searchParams.get('secret')!, ...backupCodes]) assert.ok(!text.includes(secret));
  });
});
