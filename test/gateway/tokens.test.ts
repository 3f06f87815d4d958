import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { after, before, describe, it } from 'node:test';
import { neon, neonConfig } from '@neondatabase/serverless';
import { type CryptoKey, exportJWK, generateKeyPair, SignJWT } from 'jose';
import { parseVerifier } from '../../src/domain/scram-verifier.ts';
import type { TokenIssuer } from '../../src/gateway/contract.ts';
import { keysFromPassword } from '../../src/wire/cleartext-password.ts';
import { ENDPOINT, type GatedPostgres, openGatedPostgres, PASSWORD, ROLE } from '../support/gated-postgres.ts';
import { type HttpDoor, openHttpDoor } from '../support/http-door.ts';

/** An issuer of tokens: its keys, and the server that shows the public ones. */
interface Issuer {
  readonly server: Server;
  readonly url: string;
  readonly keys: Map<string, { readonly algorithm: string; readonly key: CryptoKey }>;
  fetches: number;
  /** Answers instead of the keys. */
  broken: { readonly status: number; readonly body: string } | undefined;
  add(kid: string, algorithm: string): Promise<void>;
}

async function openIssuer(): Promise<Issuer> {
  const shown: object[] = [];
  const server = createServer((_request, response) => {
    issuer.fetches++;
    const { status, body } = issuer.broken ?? { status: 200, body: JSON.stringify({ keys: shown }) };
    response.writeHead(status, status === 302 ? { location: '/elsewhere' } : {}).end(body);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const issuer: Issuer = {
    server,
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/jwks.json`,
    keys: new Map(),
    fetches: 0,
    broken: undefined,
    async add(kid, algorithm) {
      const { publicKey, privateKey } = await generateKeyPair(algorithm, { extractable: true });
      issuer.keys.set(kid, { algorithm, key: privateKey });
      shown.push({ ...(await exportJWK(publicKey)), kid, alg: algorithm });
    },
  };
  return issuer;
}

let gated: GatedPostgres;
let door: HttpDoor;
let issuer: Issuer;
const open: Issuer[] = [];
/** What the directory says of the role. */
let issuers: readonly TokenIssuer[];

before(async () => {
  gated = await openGatedPostgres({
    tokens: {
      issuers: async (id, role) => (id === ENDPOINT && role === ROLE ? issuers : []),
      keys: async () =>
        (await keysFromPassword(PASSWORD, parseVerifier(gated.directory.secrets.get(ROLE)!.verifier!)!))!,
    },
  });
  door = await openHttpDoor(gated.gateway);
  neonConfig.fetchEndpoint = () => `${door.url}/sql`;
  issuer = await freshIssuer();
});
after(async () => {
  for (const { server } of open) server.close().closeAllConnections();
  await door?.[Symbol.asyncDispose]();
  await gated?.[Symbol.asyncDispose]();
});

async function freshIssuer(): Promise<Issuer> {
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
  readonly by?: Issuer;
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

const as = (user: string) => `postgresql://${user}@localhost/neondb?options=endpoint%3D${ENDPOINT}`;
const ask = (authToken: string, uri = as(ROLE)) => neon(uri, { authToken })`SELECT current_user AS name`;

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
    ['that is not signed', async () => 'eyJhbGciOiJub25lIiwia2lkIjoicnNhIn0.e30.', /alg|not valid/],
  ];
  for (const [name, make, message] of refused) {
    it(`${name} lets nobody in`, async () => {
      if (name.startsWith('signed by another')) issuer = await freshIssuer();
      await assert.rejects(ask(await make()), message);
    });
  }

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

describe('the keys of an issuer', () => {
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
