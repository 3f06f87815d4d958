import { createHmac, timingSafeEqual } from 'node:crypto';
import type { Vault } from './credentials.ts';

/**
 * Names of the cookies of logins begin so. A browser takes the first for the very host alone and from nobody but this host
 * over TLS; what came in the clear is another cookie, and means nothing over TLS.
 */
export const cookiePrefix = (secure: boolean): string => (secure ? '__Host-coppice' : 'coppice');

/** What signs cookies, and encrypts secrets of second factors: the database alone is not enough to be somebody. */
export const loginSecret = (vault: Vault): string => vault.derive('logins of people').toString('base64');

const sessionCookieName = (secure: boolean): string => `${cookiePrefix(secure)}.session_token`;

const signature = (token: string, secret: string): Buffer => createHmac('sha256', secret).update(token).digest();

/**
 * The token of the session in a `Cookie` header; undefined where there is none, or its signature is not ours.
 *
 * @param secure whether the request came over TLS
 */
export function sessionTokenIn(header: string | undefined, secure: boolean, vault: Vault): string | undefined {
  const name = `${sessionCookieName(secure)}=`;
  const found = header?.split(/; */).find((cookie) => cookie.startsWith(name));
  const [, token = '', signed = ''] = /^([\w-]{1,128})\.([\w+/=%]{1,200})$/.exec(found?.slice(name.length) ?? '') ?? [];
  if (token === '') return undefined;
  const given = Buffer.from(signed.replaceAll('%2B', '+').replaceAll('%2F', '/').replaceAll('%3D', '='), 'base64');
  const expected = signature(token, loginSecret(vault));
  return given.length === expected.length && timingSafeEqual(given, expected) ? token : undefined;
}

/**
 * The cookie of a session, as a browser sends it.
 * @for-tests, which are logged in without logging in.
 */
export const sessionCookie = (token: string, secure: boolean, vault: Vault): string =>
  `${sessionCookieName(secure)}=${token}.${encodeURIComponent(signature(token, loginSecret(vault)).toString('base64'))}`;
