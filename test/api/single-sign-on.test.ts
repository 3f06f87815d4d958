import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { createUser } from '../../src/actions/create-user.ts';
import { startTestApi, type TestApi } from '../support/api-server.ts';
import { addPasswordPerson, type Browser, openBrowser } from '../support/browser.ts';
import { type OidcIssuer, startOidcIssuer } from '../support/oidc-issuer.ts';
import { addOrganization, addPerson } from '../support/people.ts';

const BACK = 'http://localhost:7432/api/auth/callback/sso';

let people = 0;
const newClaims = (claims: { email?: string; email_verified?: boolean } = {}) => {
  people += 1;
  return { sub: `subject-${people}`, email: `sso${people}@example.test`, email_verified: true, name: 'Ann', ...claims };
};

/** Begins here, goes to the issuer and comes back: gives where it ends. */
async function logIn(browser: Browser, issuer: OidcIssuer, callbackURL = '/projects'): Promise<string> {
  const begun = await browser.post('/sign-in/social', { callbackURL });
  assert.equal(begun.status, 200, JSON.stringify(begun.body));
  const back = await issuer.visit(begun.body.url);
  assert.ok(back.startsWith(`${BACK}?`), back);
  return comeBack(browser, back);
}

async function comeBack(browser: Browser, back: string): Promise<string> {
  const { pathname, search } = new URL(back);
  const { status, headers } = await browser.ask('GET', pathname + search);
  assert.equal(status, 302);
  return String(headers.location);
}

const emailOf = async (browser: Browser): Promise<string | undefined> =>
  (await browser.ask('GET', '/api/v2/users/me')).body.email;

describe('single sign-on', () => {
  let issuer: OidcIssuer;
  let api: TestApi;
  before(async () => {
    issuer = await startOidcIssuer(BACK);
    api = await startTestApi({ sso: issuer.sso });
  });
  after(async () => {
    await api?.close();
    await issuer?.close();
  });

  it('is shown as a way to log in', async () => {
    const { body } = await openBrowser(api).ask('GET', '/api/auth/methods');
    assert.deepEqual(body, { password: true, single_sign_on: true });
  });

  it('lets in who has an account, again and again, as the same person', async () => {
    issuer.person = newClaims();
    const { user } = await createUser(api.context, { email: issuer.person.email, name: '', key_name: 'first' });
    for (let count = 0; count < 2; count += 1) {
      const browser = openBrowser(api);
      assert.equal(await logIn(browser, issuer), '/projects');
      assert.equal((await browser.ask('GET', '/api/v2/users/me')).body.id, user.id);
    }
    const actions = await api.store.store
      .selectFrom('audit_log')
      .select('action')
      .where('user_id', '=', user.id)
      .where('action', '=', 'user.sign_in')
      .execute();
    assert.ok(actions.length >= 2);
    // The issuer's tokens are of no use here, and not kept.
    const account = await api.store.store
      .selectFrom('coppice_auth.accounts')
      .selectAll()
      .where('user_id', '=', user.id)
      .executeTakeFirstOrThrow();
    assert.deepEqual([account.access_token, account.refresh_token, account.id_token], [null, null, null]);
  });

  it('makes an account for who is invited, and for nobody else', async () => {
    const org_id = await addOrganization(api);
    const admin = await addPerson(api, { organization_id: org_id, role: 'admin' });
    issuer.person = newClaims();
    const stranger = openBrowser(api);
    assert.match(await logIn(stranger, issuer), /^http:\/\/localhost:7432\/login\?error=signup_disabled/);
    assert.equal(await emailOf(stranger), undefined);
    const body = { invitations: [{ email: issuer.person.email, role: 'member' }] };
    await api.call('POST', `/organizations/${org_id}/invitations`, { key: admin.key, body });
    const browser = openBrowser(api);
    await logIn(browser, issuer);
    assert.equal(await emailOf(browser), issuer.person.email);
    const { body: list } = await browser.ask('GET', '/api/v2/users/me/organizations');
    assert.deepEqual(
      list.organizations.map(({ id }: { id: string }) => id),
      [org_id],
    );
  });

  it('takes over no account by an address that the issuer has not verified', async () => {
    const { email } = newClaims();
    await addPasswordPerson(api, email);
    issuer.person = newClaims({ email, email_verified: false });
    const browser = openBrowser(api);
    assert.match(await logIn(browser, issuer), /\/login\?error=account_not_linked/);
    assert.equal(await emailOf(browser), undefined);
  });

  it('takes over no account whose own address nobody vouches for: somebody else may have made it', async () => {
    const { email } = newClaims();
    await api.store.store.insertInto('users').values({ email, email_verified: false }).execute();
    issuer.person = newClaims({ email });
    const browser = openBrowser(api);
    assert.match(await logIn(browser, issuer), /\/login\?error=account_not_linked/);
    assert.equal(await emailOf(browser), undefined);
  });

  it('knows a person by the issuer’s own name for them, not by an address that somebody else has by now', async () => {
    const first = newClaims();
    await createUser(api.context, { email: first.email, name: '', key_name: 'first' });
    issuer.person = first;
    await logIn(openBrowser(api), issuer);
    // Somebody else's account gets that address at the issuer.
    issuer.person = newClaims();
    await createUser(api.context, { email: issuer.person.email, name: '', key_name: 'first' });
    const moved = { ...first, email: issuer.person.email };
    await logIn(openBrowser(api), issuer);
    issuer.person = moved;
    const browser = openBrowser(api);
    await logIn(browser, issuer);
    assert.equal(await emailOf(browser), first.email);
  });

  it('sends nobody to other hosts afterwards', async () => {
    for (const callbackURL of [
      'http://evil.example',
      '//evil.example',
      '/\\evil.example',
      'https://localhost:7432.evil.example',
      'javascript:alert(1)',
      '/%2f/evil.example',
    ]) {
      const { status } = await openBrowser(api).post('/sign-in/social', { callbackURL });
      assert.ok(status === 400 || status === 403, `${callbackURL}: ${status}`);
    }
  });

  it('ends in the browser where it began, once', async () => {
    issuer.person = newClaims();
    await createUser(api.context, { email: issuer.person.email, name: '', key_name: 'first' });
    const [browser, victim] = [openBrowser(api), openBrowser(api)];
    const begun = await browser.post('/sign-in/social', {});
    const back = await issuer.visit(begun.body.url);
    // An attacker's own login, put upon somebody else.
    assert.match(await comeBack(victim, back), /error=state_mismatch/);
    assert.equal(await emailOf(victim), undefined);
    const again = await logIn(browser, issuer);
    assert.equal(again, '/projects');
    const { pathname, search } = new URL(back);
    assert.match(String((await browser.ask('GET', pathname + search)).headers.location), /error=/);
  });
});

describe('single sign-on of certain domains', () => {
  let issuer: OidcIssuer;
  let api: TestApi;
  before(async () => {
    issuer = await startOidcIssuer(BACK, ['example.test']);
    api = await startTestApi({ sso: issuer.sso });
  });
  after(async () => {
    await api?.close();
    await issuer?.close();
  });

  it('makes an account for everybody there', async () => {
    issuer.person = newClaims();
    const browser = openBrowser(api);
    await logIn(browser, issuer);
    assert.equal(await emailOf(browser), issuer.person.email);
    assert.equal((await browser.ask('GET', '/api/v2/users/me/organizations')).body.organizations.length, 1);
  });

  it('refuses everybody else, those with an account included', async () => {
    issuer.person = newClaims({ email: 'ann@elsewhere.test' });
    await createUser(api.context, { email: issuer.person.email, name: '', key_name: 'first' });
    const browser = openBrowser(api);
    assert.match(await logIn(browser, issuer), /error=address_not_accepted/);
    assert.equal(await emailOf(browser), undefined);
    issuer.person = newClaims({ email: 'ann@example.test.evil.test' });
    assert.match(await logIn(openBrowser(api), issuer), /error=/);
  });
});

describe('an issuer that does not answer', () => {
  let api: TestApi;
  before(async () => {
    // Nobody listens on that port.
    const sso = { issuer: 'http://127.0.0.1:9', client_id: 'coppice', client_secret: 'secret', email_domains: [] };
    api = await startTestApi({ sso });
  });
  after(() => api?.close());

  it('holds up nobody who has a password', async () => {
    const { email, password } = await addPasswordPerson(api);
    const browser = openBrowser(api);
    assert.equal((await browser.signIn(email, password)).status, 200);
    const { status } = await browser.post('/sign-in/social', {});
    assert.ok(status >= 400 && status < 500, `${status}`);
  });
});
