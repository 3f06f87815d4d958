import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { type NeonQueryFunction, neon, neonConfig } from '@neondatabase/serverless';
import { SignJWT } from 'jose';
import { parseVerifier } from '../../src/domain/scram-verifier.ts';
import type { TokenIssuer } from '../../src/gateway/contract.ts';
import type { GatewayOptions } from '../../src/gateway/gateway.ts';
import { keysFromPassword } from '../../src/wire/cleartext-password.ts';
import { ENDPOINT, type GatedPostgres, openGatedPostgres, PASSWORD, ROLE } from '../support/gated-postgres.ts';
import { type HttpDoor, openHttpDoor } from '../support/http-door.ts';
import { openIssuer, type TestIssuer } from '../support/token-issuer.ts';
import { until } from '../support/until.ts';

/** A role for which tokens are taken, while nothing is known that would log in as it. */
const KEYLESS = 'keyless';

let gated: GatedPostgres;
let door: HttpDoor;
let issuer: TestIssuer;
const open: TestIssuer[] = [];
/** What the directory says of the role. */
let issuers: readonly TokenIssuer[];

before(async () => {
  gated = await openGatedPostgres({
    tokens: {
      issuers: async (id, role) => (id === ENDPOINT && [ROLE, KEYLESS].includes(role) ? issuers : []),
      keys: async (_id, role) => {
        if (role === KEYLESS) return undefined;
        return keysFromPassword(PASSWORD, parseVerifier(gated.directory.secrets.get(ROLE)!.verifier!)!);
      },
    },
  });
  door = await openHttpDoor(gated.gateway);
  neonConfig.fetchEndpoint = () => `${door.url}/sql`;
  issuer = await freshIssuer();
});
after(async () => {
  for (const one of open) one.close();
  await door?.[Symbol.asyncDispose]();
  await gated?.[Symbol.asyncDispose]();
});

async function freshIssuer(): Promise<TestIssuer> {
  const opened = await openIssuer();
  open.push(opened);
  await opened.add('rsa', 'RS256');
  await opened.add('ec', 'ES256');
  await opened.add('long', 'RS512');
  issuers = [{ jwks_url: opened.url }];
  return opened;
}

interface Claims {
  readonly kid?: string | undefined;
  readonly expires?: string | undefined;
  readonly from?: string;
  readonly audience?: string;
  readonly by?: TestIssuer;
}

function sign({
  by = issuer,
  kid,
  expires = '1h',
  from,
  audience,
  ...more
}: Claims & { key?: string }): Promise<string> {
  const { algorithm, key } = by.keys.get(more.key ?? kid ?? 'rsa')!;
  const token = new SignJWT({ sub: 'somebody' }).setProtectedHeader({ alg: algorithm, ...(kid && { kid }) });
  if (expires !== 'never') token.setExpirationTime(expires);
  if (from) token.setNotBefore(from);
  if (audience) token.setAudience(audience);
  return token.sign(key);
}

/** What a verifier would take that lets the token say how it is signed. */
async function signByPublicKey(): Promise<string> {
  const { keys } = await (await fetch(issuer.url)).json();
  issuer.fetches--;
  const token = new SignJWT({ sub: 'somebody' }).setProtectedHeader({ alg: 'HS256', kid: 'rsa' });
  return token.setExpirationTime('1h').sign(Buffer.from(JSON.stringify(keys[0])));
}

const as = (user: string) => `postgresql://${user}@localhost/neondb?options=endpoint%3D${ENDPOINT}`;
const ask = (authToken: string, uri = as(ROLE)) => neon(uri, { authToken })`SELECT current_user AS name`;

/** A gateway of other bounds, and what it says to a token: 200, or the code of the error. */
async function openOther(options: Partial<GatewayOptions>) {
  const other = await openHttpDoor(await gated.openGateway(options));
  const answer = async (authorization: string, uri = as(ROLE)) => {
    const headers = { 'neon-connection-string': uri, authorization: `Bearer ${authorization}` };
    const said = await fetch(`${other.url}/sql`, { method: 'POST', body: '{"query":""}', headers });
    return said.status === 200 ? 200 : (await said.json()).code;
  };
  return { answer, [Symbol.asyncDispose]: () => other[Symbol.asyncDispose]() };
}

describe('a token', () => {
  it('lets in who shows it as the role of the connection string, signed by RSA or on P-256', async () => {
    for (const kid of ['rsa', 'ec']) assert.deepEqual(await ask(await sign({ kid })), [{ name: ROLE }]);
    assert.equal(issuer.fetches, 1);
  });

  it('wakes a compute that sleeps, and only if it is valid', async () => {
    await gated.postmaster.stop();
    const { wakes } = gated.waker;
    await assert.rejects(ask(await sign({ kid: 'rsa', expires: '2h ago' })), /the token is not valid/);
    assert.equal(gated.waker.wakes, wakes);
    assert.deepEqual(await ask(await sign({ kid: 'rsa' })), [{ name: ROLE }]);
  });

  it('may be for an audience', async () => {
    issuers = [{ jwks_url: issuer.url, audience: 'us' }];
    assert.deepEqual(await ask(await sign({ kid: 'ec', audience: 'us' })), [{ name: ROLE }]);
    await assert.rejects(ask(await sign({ kid: 'ec', audience: 'them' })), /"aud"/);
    await assert.rejects(ask(await sign({ kid: 'ec' })), /"aud"/);
    issuers = [{ jwks_url: issuer.url }];
  });

  it('may come from any of several issuers', async () => {
    const first = issuer.url;
    const other = await freshIssuer();
    issuers = [{ jwks_url: first }, { jwks_url: other.url }];
    assert.deepEqual(await ask(await sign({ kid: 'ec', by: other })), [{ name: ROLE }]);
    issuers = [{ jwks_url: issuer.url }];
  });

  const refused: [string, () => Promise<string>, RegExp][] = [
    ['that has expired', () => sign({ kid: 'rsa', expires: '5m ago' }), /"exp"/],
    ['that never expires', () => sign({ kid: 'rsa', expires: 'never' }), /"exp"/],
    ['that is not valid yet', () => sign({ kid: 'rsa', from: '5m from now' }), /"nbf"/],
    ['that names no key', () => sign({}), /names no key/],
    ['signed by another key than it names', () => sign({ kid: 'rsa', by: open[0]!, key: 'rsa' }), /signature|valid/],
    ['signed in a way that is not taken', () => sign({ kid: 'long' }), /alg/],
    ['that is none', async () => 'abc', /malformed/],
    ['signed with the public key as if it were a secret', () => signByPublicKey(), /alg/],
    ['that is not signed', async () => 'eyJhbGciOiJub25lIiwia2lkIjoicnNhIn0.e30.', /alg|not valid/],
  ];
  for (const [name, make, message] of refused) {
    it(`${name} lets nobody in`, async () => {
      if (name.startsWith('signed by another')) issuer = await freshIssuer();
      await assert.rejects(ask(await make()), message);
    });
  }

  it('is of no use for a role that nothing logs in as, and wakes nothing', async () => {
    await gated.postmaster.stop();
    const { wakes } = gated.waker;
    await assert.rejects(ask(await sign({ kid: 'rsa' }), as(KEYLESS)), {
      message: "The role 'keyless' cannot log in by a token.",
      hint: /reset it through the API/,
    });
    assert.equal(gated.waker.wakes, wakes);
  });

  it('within the skew of clocks is valid', async () => {
    assert.deepEqual(await ask(await sign({ kid: 'rsa', expires: '10s ago' })), [{ name: ROLE }]);
  });

  it('lets nobody in as a role, or at an endpoint, that takes none, without a word about why', async () => {
    const message = /nobody is known whose tokens are taken here/;
    const token = await sign({ kid: 'rsa' });
    await assert.rejects(ask(token, as('somebody_else')), message);
    await assert.rejects(ask(token, as('cloud_admin')), message);
    await assert.rejects(ask(token, as(ROLE).replace(ENDPOINT, 'ep-nowhere-oak-a1b2c3d4')), message);
  });

  it('that keeps on coming where none is taken is counted like a wrong password', async () => {
    const limits = { failed_logins_per_pair_burst: 3, failed_logins_per_pair_per_second: 0 };
    await using other = await openOther({ limits });
    const token = await sign({ kid: 'rsa' });
    const nowhere = as('somebody_else');
    for (let count = 0; count < 3; count++) assert.equal(await other.answer(token, nowhere), '28000');
    assert.equal(await other.answer(token, nowhere), '53400');
  });

  it('does not go with a password', async () => {
    await assert.rejects(ask(await sign({ kid: 'rsa' }), as(`${ROLE}:${encodeURIComponent(PASSWORD)}`)), /not both/);
  });

  it('is not taken where nobody said whose', async () => {
    await using plain = await openHttpDoor(await gated.openGateway({ tokens: undefined }));
    const headers = { 'neon-connection-string': as(ROLE), authorization: `Bearer ${await sign({ kid: 'rsa' })}` };
    const answer = await fetch(`${plain.url}/sql`, { method: 'POST', body: '{"query":""}', headers });
    assert.deepEqual([answer.status, (await answer.json()).code], [400, '0A000']);
  });
});

describe('what a token says', () => {
  const read = `SELECT nullif(current_setting('request.jwt.claims', true), '') AS claims, pg_backend_pid() AS pid`;
  const byPassword = () => neon(as(`${ROLE}:${encodeURIComponent(PASSWORD)}`));
  let sql: NeonQueryFunction<false, false>;
  let claims: string;
  before(async () => {
    issuer = await freshIssuer();
    const authToken = await sign({ kid: 'ec', audience: "it's us" });
    claims = Buffer.from(authToken.split('.')[1]!, 'base64url').toString();
    sql = neon(as(ROLE), { authToken });
  });

  it('can be read by every statement of the request', async () => {
    assert.equal((await sql.query(read))[0]!.claims, claims);
    const results = await sql.transaction([sql.query(read), sql.query('SELECT 1'), sql.query(read)]);
    assert.deepEqual(
      [results[0]![0]!.claims, results[2]![0]!.claims, JSON.parse(claims).aud],
      [claims, claims, "it's us"],
    );
  });

  it('changes nothing of answers and errors', async () => {
    const { rows, fields, command, rowCount } = await sql.query('SELECT 1 AS one', [], { fullResults: true });
    assert.deepEqual([rows, fields.length, command, rowCount], [[{ one: 1 }], 1, 'SELECT', 1]);
    await assert.rejects(sql.query('SELECT 1 FROM nowhere'), { code: '42P01', position: '15' });
    await assert.rejects(sql.transaction([sql.query('SELECT 1'), sql.query('SELECT 1/0')]), { code: '22012' });
    await sql.query('CREATE TABLE made_by_token (id int)');
    await sql.query('DROP TABLE made_by_token');
  });

  it('is gone for whoever uses the connection next, be it a session setting that somebody made of it', async () => {
    for (const statement of [read, `SET request.jwt.claims = '{"sub":"forged"}'`]) {
      await sql.query(statement);
      const seen = await byPassword().query(read);
      assert.equal(seen[0]!.claims, null);
      assert.equal((await sql.query(read))[0]!.claims, claims);
    }
  });

  it('is gone behind a statement that ends the transaction', async () => {
    const results = await sql.transaction([sql.query('COMMIT'), sql.query(read)]);
    assert.equal(results[1]![0]!.claims, null);
  });
});

describe('the keys of an issuer', () => {
  it('may change: tokens of the new one are taken, and no more of the old one', async () => {
    issuer = await freshIssuer();
    await using other = await openOther({ limits: { token_keys_cooldown_ms: 0 } });
    const old = await sign({ kid: 'rsa' });
    assert.equal(await other.answer(old), 200);
    issuer.hideKeys();
    await issuer.add('next', 'ES256');
    assert.equal(await other.answer(await sign({ kid: 'next' })), 200);
    assert.equal(await other.answer(old), '28000');
  });

  it('are used on while they cannot be had', async () => {
    issuer = await freshIssuer();
    await using other = await openOther({ limits: { token_keys_age_ms: 0, token_keys_retry_ms: 0 } });
    const token = await sign({ kid: 'rsa' });
    assert.equal(await other.answer(token), 200);
    issuer.broken = { status: 503, body: '' };
    for (let count = 0; count < 3; count++) assert.equal(await other.answer(token), 200);
    await until(() => issuer.fetches > 1, { what: 'the keys to be asked for again' });
  });

  it('that do not come hold up no tokens of another issuer', async () => {
    const silent = await freshIssuer();
    silent.broken = 'silent';
    issuer = await freshIssuer();
    issuers = [{ jwks_url: silent.url }, { jwks_url: issuer.url }];
    await using other = await openOther({ limits: { token_keys_timeout_ms: 500 } });
    assert.equal(await other.answer(await sign({ kid: 'rsa' })), 200);
    assert.equal(await other.answer(await sign({ kid: 'rsa', by: silent })), '08006');
    issuers = [{ jwks_url: issuer.url }];
  });

  it('are not fetched from this machine where the domain is another, by whatever name', async () => {
    issuer = await freshIssuer();
    await using other = await openOther({ domain: 'example.test' });
    const { port } = new URL(issuer.url);
    for (const place of [issuer.url, `https://localhost:${port}/`, `https://127.0.0.1:${port}/`]) {
      issuers = [{ jwks_url: place }];
      assert.equal(await other.answer(await sign({ kid: 'rsa' })), '08006');
    }
    assert.equal(issuer.connections, 0);
    issuers = [{ jwks_url: issuer.url }];
  });

  it('are not fetched for each token that somebody makes up', async () => {
    issuer = await freshIssuer();
    for (let count = 0; count < 5; count++) {
      await assert.rejects(
        ask((await sign({ kid: 'rsa' })).replace(/^[^.]+/, encode({ alg: 'RS256', kid: `k${count}` }))),
      );
    }
    assert.equal(issuer.fetches, 1);
  });

  for (const [name, broken] of [
    ['cannot be had', { status: 500, body: '' }],
    ['are elsewhere', { status: 302, body: '' }],
    ['are no JSON', { status: 200, body: 'hello' }],
    ['are no set', { status: 200, body: 'null' }],
    ['are too many', { status: 200, body: `{"keys":[],"more":"${'x'.repeat(70_000)}"}` }],
  ] as const) {
    it(`that ${name} are asked for once in a while, and the client hears of it`, async () => {
      issuer = await freshIssuer();
      issuer.broken = broken;
      const token = await sign({ kid: 'rsa' });
      for (let count = 0; count < 3; count++) {
        await assert.rejects(ask(token), /HTTP status 500.*keys of the token's issuer could not be fetched/);
      }
      assert.equal(issuer.fetches, 1);
    });
  }
});

const encode = (header: object): string => Buffer.from(JSON.stringify(header)).toString('base64url');
