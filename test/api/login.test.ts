import assert from 'node:assert/strict';
import crypto from 'node:crypto';
import { syncBuiltinESMExports } from 'node:module';
import { after, before, describe, it, mock } from 'node:test';
import { createUser } from '../../src/actions/create-user.ts';
import { resetLogin } from '../../src/actions/reset-login.ts';
import { forgetExpiredLogins } from '../../src/store/sessions.ts';
import { startSecondApi, startTestApi, type TestApi } from '../support/api-server.ts';
import { addPasswordPerson, type Browser, newPassword, openBrowser } from '../support/browser.ts';
import { until } from '../support/until.ts';

describe('logging in by password', () => {
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

  let people = 0;
  /** Somebody with a password, in an organisation of their own. */
  const addPerson = () => {
    people += 1;
    return addPasswordPerson(api, `Person${people}@example.test`);
  };
  const loggedIn = async () => {
    const person = await addPerson();
    const browser = openBrowser(api);
    assert.equal((await browser.signIn(person.email, person.password)).status, 200);
    return { ...person, browser };
  };
  const me = (browser: Browser) => browser.ask('GET', '/api/v2/users/me');
  const entries = async (user_id: string) =>
    (
      await api.store.store
        .selectFrom('audit_log')
        .selectAll()
        .where('user_id', '=', user_id)
        .where('action', 'like', 'user.%')
        .orderBy('id')
        .execute()
    ).map(({ action }) => action);

  it('opens the management API to the person, as a personal key does', async () => {
    const { browser, id, email, org_id } = await loggedIn();
    assert.equal((await me(browser)).body.email, email);
    assert.deepEqual((await browser.ask('GET', '/api/v2/auth')).body, {
      account_id: id,
      auth_method: 'session_cookie',
    });
    const made = await browser.ask('POST', '/api/v2/projects', { body: { project: { name: 'from a browser' } } });
    assert.deepEqual([made.status, made.body.project.org_id], [201, org_id]);
    const key = await browser.ask('POST', '/api/v2/api_keys', { body: { key_name: 'first' } });
    assert.equal((await api.call('GET', '/users/me', { key: key.body.key })).body.id, id);
    const log = await browser.ask('GET', `/api/v2/organizations/${org_id}/audit_log?action=project.create`);
    assert.deepEqual(log.body.entries[0].actor, { kind: 'session', user_id: id, email });
  });

  it('takes the address in any case, and the password in any way to type it', async () => {
    const { email, password } = await addPerson();
    const browser = openBrowser(api);
    assert.equal((await browser.signIn(email.toUpperCase(), password.normalize('NFD'))).status, 200);
    assert.equal((await me(browser)).status, 200);
  });

  it('gives a cookie that no script and no other site can use', async () => {
    const { email, password } = await addPerson();
    const plain = await openBrowser(api).signIn(email, password);
    assert.match(
      plain.set_cookies[0]!,
      /^coppice\.session_token=[^;]+; Max-Age=604800; Path=\/; HttpOnly; SameSite=Lax$/,
    );
  });

  it('gives over TLS a cookie that no plain page, no other host and no sub-domain can set or see', async () => {
    const behind = await startSecondApi(api, { public_url: 'https://coppice.example.test' });
    try {
      const { email, password } = await addPerson();
      const browser = openBrowser(behind, 'https://coppice.example.test');
      const { set_cookies } = await browser.signIn(email, password);
      assert.match(set_cookies[0]!, /^__Host-coppice\.session_token=[^;]+; .*Secure/);
      assert.doesNotMatch(set_cookies[0]!, /Domain=/i);
      assert.equal((await me(browser)).status, 200);
      // The same session under the name that anybody on the way could have set.
      const [name, value] = [...browser.cookies][0]!;
      browser.cookies.delete(name);
      browser.cookies.set(name.replace('__Host-', ''), value);
      assert.equal((await me(browser)).status, 401);
    } finally {
      await behind.close();
    }
  });

  it('is refused with the same answer and the same work, whoever has the address', async () => {
    const email = 'with-password@example.test';
    await createUser(api.context, { email, name: '', password: newPassword() });
    const { user } = await createUser(api.context, { email: 'no-password@example.test', name: '', key_name: 'first' });
    const scrypt = mock.method(crypto, 'scrypt');
    syncBuiltinESMExports();
    try {
      const answers: unknown[] = [];
      for (const address of [email, user.email, 'nobody@example.test']) {
        const before = scrypt.mock.callCount();
        const { status, body, set_cookies } = await openBrowser(api).signIn(address, 'a wrong password');
        answers.push([status, body.message, set_cookies.length, scrypt.mock.callCount() - before]);
      }
      assert.deepEqual(answers, Array(3).fill([401, 'wrong e-mail address or password', 0, 1]));
      const costs = scrypt.mock.calls.map(({ arguments: [, , bytes, options] }) => JSON.stringify([bytes, options]));
      assert.equal(new Set(costs).size, 1, 'hashes cost the same');
    } finally {
      scrypt.mock.restore();
      syncBuiltinESMExports();
    }
  });

  it('is refused from pages of other hosts, and so are changes with the session', async () => {
    const { browser, email, password } = await loggedIn();
    const wrong = ['http://evil.example', 'null', 'https://localhost:7432', 'http://localhost:7433', null];
    for (const origin of wrong) {
      const body = { project: {} };
      const change = await browser.ask('POST', '/api/v2/projects', { body, origin });
      assert.deepEqual([change.status, /pages of this host/.test(change.body.message)], [403, true], `${origin}`);
      const login = await openBrowser(api).post('/sign-in/email', { email, password }, { origin });
      assert.deepEqual([login.status, login.set_cookies], [403, []], `${origin}`);
      assert.equal((await browser.post('/sign-out', undefined, { origin })).status, 403);
    }
    assert.equal((await me(browser)).status, 200);
    // A key is no cookie: whoever has it asks from where they like.
    assert.equal(
      (await api.call('POST', '/projects', { body: { project: {} }, headers: { origin: 'http://evil.example' } }))
        .status,
      201,
    );
  });

  it('begins a session of its own: one that somebody put there beforehand stays worthless', async () => {
    const { email, password } = await addPerson();
    const browser = openBrowser(api);
    browser.cookies.set('coppice.session_token', 'chosen-by-somebody.AAAA');
    await browser.signIn(email, password);
    assert.doesNotMatch(browser.cookies.get('coppice.session_token')!, /^chosen/);
    assert.equal((await me(browser)).status, 200);
  });

  it('is not had with the token that the database has, or with a signature of somebody else', async () => {
    const { id } = await loggedIn();
    const { token } = await api.store.store
      .selectFrom('coppice_auth.sessions')
      .select('token')
      .where('user_id', '=', id)
      .executeTakeFirstOrThrow();
    const forged = openBrowser(api);
    for (const value of [token, `${token}.`, `${token}.${Buffer.alloc(32).toString('base64')}`, `${token}.%zz`]) {
      forged.cookies.set('coppice.session_token', value);
      assert.equal((await me(forged)).status, 401, value);
    }
  });

  it('ends in every process when the person logs out, and leaves other sessions alone', async () => {
    const { browser, email, password, id } = await loggedIn();
    const other = openBrowser(second);
    await other.signIn(email, password);
    const here = openBrowser(second);
    for (const [name, value] of browser.cookies) here.cookies.set(name, value);
    assert.equal((await me(here)).status, 200);
    assert.equal((await browser.post('/sign-out')).status, 200);
    assert.deepEqual([(await me(here)).status, (await me(other)).status], [401, 200]);
    assert.deepEqual(await entries(id), ['user.sign_in', 'user.sign_in', 'user.sign_out']);
  });

  it('ends for all others when the password changes, which asks for the old one', async () => {
    const { browser, email, password, id } = await loggedIn();
    const other = openBrowser(second);
    await other.signIn(email, password);
    const newer = newPassword();
    const wrong = await browser.post('/change-password', { currentPassword: 'not the password', newPassword: newer });
    assert.deepEqual([wrong.status, wrong.body.message], [403, 'the current password is wrong']);
    const short = await browser.post('/change-password', { currentPassword: password, newPassword: 'short' });
    assert.equal(short.status, 400);
    const changed = await browser.post('/change-password', { currentPassword: password, newPassword: newer });
    assert.equal(changed.status, 200, JSON.stringify(changed.body));
    assert.deepEqual([(await me(other)).status, (await me(browser)).status], [401, 200]);
    assert.equal((await openBrowser(api).signIn(email, password)).status, 401);
    assert.equal((await openBrowser(api).signIn(email, newer)).status, 200);
    await until(async () => (await entries(id)).filter((action) => action === 'user.sign_in_failed').length === 2, {
      what: 'both failures in the log',
    });
    const row = await api.store.store
      .selectFrom('audit_log')
      .selectAll()
      .where('user_id', '=', id)
      .where('action', '=', 'user.change_password')
      .executeTakeFirstOrThrow();
    assert.deepEqual(
      row.changes.map(({ noun, change, after }) => [noun, change, after]),
      [['login', 'update', { password: 'changed, and not shown' }]],
    );
  });

  it('ends in every process when somebody on the machine resets it, and again when the link is used', async () => {
    const { browser, email, password } = await loggedIn();
    const { token } = await resetLogin(api.context, email, { link: true, drop_second_factor: false });
    assert.equal((await me(browser)).status, 401);
    // Until the link is used the old password still is one.
    assert.equal((await browser.signIn(email, password)).status, 200);
    const [stranger, newer] = [openBrowser(second), newPassword()];
    assert.deepEqual((await stranger.post('/link', { token })).body, { email, has_account: true });
    assert.equal((await stranger.post('/use-link', { token, password: 'short' })).status, 400);
    assert.equal((await stranger.post('/use-link', { token, password: newer })).status, 200);
    assert.equal((await me(browser)).status, 401);
    const again = await stranger.post('/use-link', { token, password: newPassword() });
    assert.deepEqual([again.status, /was used/.test(again.body.message)], [410, true]);
    assert.equal((await openBrowser(api).signIn(email, password)).status, 401);
    assert.equal((await openBrowser(api).signIn(email, newer)).status, 200);
  });

  it('is not had by links that were replaced, have expired or are made up', async () => {
    const { email } = await addPerson();
    const link = async () => (await resetLogin(api.context, email, { link: true, drop_second_factor: false })).token!;
    const old = await link();
    const newest = await link();
    const made_up = newest.replace(/^./, (letter) => (letter === 'A' ? 'B' : 'A'));
    const refused = async (token: string) =>
      (await openBrowser(api).post('/use-link', { token, password: newPassword() })).status;
    assert.deepEqual([await refused(old), await refused(made_up)], [410, 410]);
    await api.store.store
      .updateTable('coppice_auth.links')
      .set({ expires_at: new Date(Date.now() - 1) })
      .execute();
    assert.equal(await refused(newest), 410);
  });

  it('uses a link once, however many try at once', async () => {
    const { email } = await addPerson();
    const { token } = await resetLogin(api.context, email, { link: true, drop_second_factor: false });
    const passwords = Array.from({ length: 4 }, newPassword);
    const answers = await Promise.all(
      passwords.map((password) => openBrowser(api).post('/use-link', { token, password })),
    );
    assert.deepEqual(answers.map(({ status }) => status).sort(), [200, 410, 410, 410]);
    const winner = passwords[answers.findIndex(({ status }) => status === 200)]!;
    assert.equal((await openBrowser(api).signIn(email, winner)).status, 200);
  });

  it('lasts a week, and is forgotten then', async () => {
    const { browser, id } = await loggedIn();
    await api.store.store
      .updateTable('coppice_auth.sessions')
      .set({ expires_at: new Date(Date.now() - 1) })
      .where('user_id', '=', id)
      .execute();
    assert.equal((await me(browser)).status, 401);
    await forgetExpiredLogins(api.store.store, new Date(), 1_000);
    const left = await api.store.store
      .selectFrom('coppice_auth.sessions')
      .select('id')
      .where('user_id', '=', id)
      .execute();
    assert.deepEqual(left, []);
  });

  it('ends with the membership what the session may do, at the next request in every process', async () => {
    const { browser, id, org_id } = await loggedIn();
    const here = openBrowser(second);
    for (const [name, value] of browser.cookies) here.cookies.set(name, value);
    const path = `/api/v2/organizations/${org_id}`;
    assert.equal((await here.ask('GET', path)).status, 200);
    await api.store.store.deleteFrom('memberships').where('user_id', '=', id).execute();
    assert.equal((await here.ask('GET', path)).status, 404);
  });

  it('is bounded: guesses from one place are refused after a while, and those from elsewhere are not', async () => {
    const { email, password } = await addPerson();
    const guesser = openBrowser(api);
    // One more is allowed in half a minute: where it takes so long.
    let guesses = 0;
    while ((await guesser.signIn(email, 'a wrong password')).status === 401) guesses += 1;
    assert.ok(guesses >= 10 && guesses < 20, `${guesses}`);
    assert.equal((await guesser.signIn(email, password)).status, 429);
    assert.equal((await openBrowser(api).signIn(email, password)).status, 200);
  });

  it('serves nothing of the library but what is meant to be served', async () => {
    const { browser } = await loggedIn();
    for (const path of [
      '/sign-up/email',
      '/update-user',
      '/change-email',
      '/delete-user',
      '/request-password-reset',
      '/set-password',
      '/two-factor/send-otp',
      '/update-session',
      '/link-social',
    ]) {
      assert.equal(
        (await browser.post(path, { email: 'x@example.test', password: newPassword(), name: 'x' })).status,
        404,
        path,
      );
    }
    for (const path of ['/ok', '/error', '/reference', '/get-access-token', '/account-info']) {
      assert.equal((await browser.ask('GET', `/api/auth${path}`)).status, 404, path);
    }
  });

  it('shows and ends sessions one by one', async () => {
    const { browser, email, password } = await loggedIn();
    const other = openBrowser(api);
    await other.signIn(email, password);
    const session = await browser.ask('GET', '/api/auth/get-session');
    assert.equal(session.body.user.email, email.toLowerCase());
    const { body: listed } = await browser.ask('GET', '/api/auth/list-sessions');
    assert.equal(listed.length, 2);
    const { token } = listed.find(({ id }: { id: string }) => id !== session.body.session.id);
    assert.equal((await browser.post('/revoke-session', { token })).status, 200);
    assert.deepEqual([(await me(other)).status, (await me(browser)).status], [401, 200]);
    // Somebody else's session is not theirs to end.
    const stranger = await loggedIn();
    await stranger.browser.post('/revoke-session', { token: session.body.session.token });
    assert.equal((await me(browser)).status, 200);
  });

  it('leaves no password, token or cookie in the log', async () => {
    const { browser, email, password } = await loggedIn();
    const { token } = await resetLogin(api.context, email, { link: true, drop_second_factor: false });
    await openBrowser(api).post('/use-link', { token, password: newPassword() });
    await openBrowser(api).signIn(email, `${password} wrong`);
    const cookie = [...browser.cookies.values()][0]!;
    const text = [...api.log, ...second.log].join('\n');
    for (const secret of [password, token!, cookie, cookie.split('.')[0]!]) assert.ok(!text.includes(secret));
  });

  it('shows a page for links that nothing else can put into a frame or add to', async () => {
    const { status, headers, body } = await openBrowser(api).ask('GET', '/login/link');
    assert.equal(status, 200);
    const script = /<script type="module">([\s\S]*)<\/script>/.exec(body)![1]!;
    const hash = crypto.createHash('sha256').update(script).digest('base64');
    const policy = String(headers['content-security-policy']);
    assert.ok(policy.includes(`script-src 'sha256-${hash}'`), policy);
    assert.match(policy, /default-src 'none'.*frame-ancestors 'none'/);
    assert.equal(headers['referrer-policy'], 'no-referrer');
  });
});
