import assert from 'node:assert/strict';
import { createHmac, randomBytes, randomUUID, scryptSync } from 'node:crypto';
import type { InjectOptions } from 'fastify';
import { createUser } from '../../src/actions/create-user.ts';
import { replacePassword } from '../../src/store/logins.ts';
import type { TestApi } from './api-server.ts';

export interface BrowserAnswer {
  readonly status: number;
  readonly headers: Record<string, string | string[] | number | undefined>;
  // biome-ignore lint/suspicious/noExplicitAny: tests reach into it.
  readonly body: any;
  /** As they came. */
  readonly set_cookies: readonly string[];
}

export interface BrowserRequest {
  readonly body?: unknown;
  /** Null: none; by default the page is of this host. */
  readonly origin?: string | null;
  readonly headers?: Record<string, string>;
}

/** What keeps cookies, says where its pages are from, and has an address of its own. */
export interface Browser {
  readonly cookies: Map<string, string>;
  /** `path` is below the host: `/api/auth/sign-out`. */
  ask(method: NonNullable<InjectOptions['method']>, path: string, request?: BrowserRequest): Promise<BrowserAnswer>;
  /** POST below /api/auth. */
  post(path: string, body?: unknown, request?: BrowserRequest): Promise<BrowserAnswer>;
  signIn(email: string, password: string): Promise<BrowserAnswer>;
}

let made = 0;

/** @param host what it asks for; `https://` in front where a balancer with TLS stands before the server */
export function openBrowser(api: TestApi, host = 'http://localhost:7432'): Browser {
  made += 1;
  const remoteAddress = `10.${(made >> 16) & 255}.${(made >> 8) & 255}.${made & 255}`;
  const cookies = new Map<string, string>();
  const ask: Browser['ask'] = async (method, path, { body, origin = host, headers } = {}) => {
    const response = await api.app.inject({
      method,
      url: path,
      remoteAddress,
      headers: {
        host: new URL(host).host,
        ...(origin !== null && method !== 'GET' && { origin }),
        ...(cookies.size > 0 && { cookie: [...cookies].map(([name, value]) => `${name}=${value}`).join('; ') }),
        ...headers,
      },
      ...(body === undefined ? {} : { payload: body as InjectOptions['payload'] }),
    });
    const set_cookies = [response.headers['set-cookie'] ?? []].flat();
    for (const cookie of set_cookies) keepCookie(cookies, cookie);
    assert.notEqual(
      response.statusCode,
      500,
      api.log.findLast((line) => line.includes('"err"')),
    );
    const is_json = String(response.headers['content-type']).startsWith('application/json');
    return {
      status: response.statusCode,
      headers: response.headers,
      body: is_json ? response.json() : response.payload,
      set_cookies,
    };
  };
  const post: Browser['post'] = (path, body, request) => ask('POST', `/api/auth${path}`, { ...request, body });
  return { cookies, ask, post, signIn: (email, password) => post('/sign-in/email', { email, password }) };
}

function keepCookie(cookies: Map<string, string>, cookie: string): void {
  const [, name = '', value = ''] = /^([^=]+)=([^;]*)/.exec(cookie) ?? [];
  if (value === '' || /max-age=0/i.test(cookie)) cookies.delete(name);
  else cookies.set(name, value);
}

/** Gives a user a password by a hash that costs next to nothing, as the product takes any cost that a hash names. */
export async function givePassword({ store }: TestApi, user_id: string, password: string): Promise<void> {
  const salt = randomBytes(16);
  const hash = scryptSync(password.normalize('NFKC'), salt, 32, { N: 1024, r: 8, p: 1 });
  const stored = ['scrypt', 1024, 8, 1, salt.toString('base64'), hash.toString('base64')].join('$');
  await store.store.transaction().execute((trx) => replacePassword(trx, user_id, stored));
}

/** Somebody with a password, in an organisation of their own. */
export async function addPasswordPerson(api: TestApi, email = `${randomUUID()}@example.test`) {
  const password = newPassword();
  const { user, organization_ids } = await createUser(api.context, { email, name: 'Person' });
  await givePassword(api, user.id, password);
  return { id: user.id, email, password, org_id: organization_ids[0]! };
}

/** A password that nobody else has. */
export const newPassword = (): string => `${randomBytes(12).toString('base64url')} ä`;

/** The code that an authenticator shows for a secret (`otpauth://`), so many half minutes from now. */
export function codeOf(totp_uri: string, steps = 0): string {
  const secret = decodeBase32(new URL(totp_uri).searchParams.get('secret')!);
  const counter = Buffer.alloc(8);
  counter.writeBigUInt64BE(BigInt(Math.floor(Date.now() / 30_000) + steps));
  const mac = createHmac('sha1', secret).update(counter).digest();
  const offset = mac.at(-1)! & 15;
  return String((mac.readUInt32BE(offset) & 0x7fff_ffff) % 1_000_000).padStart(6, '0');
}

function decodeBase32(text: string): Buffer {
  const bits = [...text.replace(/=+$/, '')].map((letter) =>
    'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567'.indexOf(letter).toString(2).padStart(5, '0'),
  );
  return Buffer.from(
    bits
      .join('')
      .match(/[01]{8}/g)!
      .map((byte) => Number.parseInt(byte, 2)),
  );
}
