import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import Provider from 'oidc-provider';
import type { SingleSignOn } from '../../src/domain/single-sign-on.ts';

/** What the issuer says of somebody. */
export interface Claims {
  readonly sub: string;
  readonly email: string;
  readonly email_verified: boolean;
  readonly name?: string;
}

/** A real issuer of OpenID Connect on loopback, where whoever comes is logged in as the person that was named last. */
export interface OidcIssuer {
  readonly sso: SingleSignOn;
  person: Claims;
  /** Goes to the address as a browser would, and gives where it is sent back to. */
  visit(url: string): Promise<string>;
  close(): Promise<void>;
}

export async function startOidcIssuer(
  redirect_uri: string,
  email_domains: readonly string[] = [],
): Promise<OidcIssuer> {
  const server = createServer();
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const sso = { issuer, client_id: 'coppice', client_secret: 'a secret of the client', email_domains };
  const people = new Map<string, Claims>();
  const provider = new Provider(issuer, {
    clients: [{ client_id: sso.client_id, client_secret: sso.client_secret, redirect_uris: [redirect_uri] }],
    claims: { openid: ['sub'], email: ['email', 'email_verified'], profile: ['name'] },
    findAccount: (_context: unknown, id: string) => ({ accountId: id, claims: async () => people.get(id) }),
    features: { devInteractions: { enabled: false } },
    interactions: { url: (_context: unknown, { uid }: { uid: string }) => `/interaction/${uid}` },
    cookies: { keys: ['of a test'] },
    pkce: { required: () => true },
  });
  const own: OidcIssuer = {
    sso,
    person: { sub: 'nobody', email: 'nobody@example.test', email_verified: false },
    visit,
    close: async () => {
      server.closeAllConnections();
      await new Promise((done) => server.close(done));
    },
  };
  const callback = provider.callback();
  server.on('request', (request, response) => {
    if (!request.url!.startsWith('/interaction/')) return callback(request, response);
    people.set(own.person.sub, own.person);
    const agree = async () => {
      const { params } = await provider.interactionDetails(request, response);
      const grant = new provider.Grant({ accountId: own.person.sub, clientId: params.client_id });
      grant.addOIDCScope('openid email profile');
      const result = { login: { accountId: own.person.sub }, consent: { grantId: await grant.save() } };
      await provider.interactionFinished(request, response, result);
    };
    agree().catch((error) => response.destroy(error));
  });
  return own;

  async function visit(url: string): Promise<string> {
    const cookies = new Map<string, string>();
    let next = url;
    while (next.startsWith(issuer)) {
      const cookie = [...cookies].map(([name, value]) => `${name}=${value}`).join('; ');
      const answer = await fetch(next, { redirect: 'manual', headers: { cookie } });
      for (const set of answer.headers.getSetCookie()) {
        const [, name = '', value = ''] = /^([^=]+)=([^;]*)/.exec(set) ?? [];
        cookies.set(name, value);
      }
      const location = answer.headers.get('location');
      if (!location) throw new Error(`the issuer sends nobody on: ${answer.status} ${await answer.text()}`);
      next = new URL(location, next).href;
    }
    return next;
  }
}
