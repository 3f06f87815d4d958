import { randomBytes } from 'node:crypto';
import { CoppiceError } from '../domain/errors.ts';
import { LIMITS } from '../domain/limits.ts';
import { replaceLink } from '../store/login-links.ts';
import { dropSecondFactor } from '../store/logins.ts';
import type { UserRow } from '../store/schema.ts';
import { endSessionsOf } from '../store/sessions.ts';
import { findUserByEmail } from '../store/users.ts';
import type { ActionContext } from './context.ts';
import { hashOf, hashOfLink, setPasswordHash } from './use-login-link.ts';

/** How somebody who runs the machine lets a person in again. */
export type LoginReset =
  /** By this password, */
  | { readonly password: string; readonly drop_second_factor: boolean }
  /** or by a link with which the person sets one. */
  | { readonly link: true; readonly drop_second_factor: boolean };

/**
 * Ends whatever a person is logged in with, and sets a password or gives the secret of a link that sets one, once, within a
 * day. With a link the old password stays until it is used. `not_found` where nobody has the address.
 */
export async function resetLogin(
  { store }: Pick<ActionContext, 'store'>,
  email: string,
  reset: LoginReset,
): Promise<{ user: UserRow; token: string | undefined }> {
  const hash = 'password' in reset ? await hashOf(reset.password) : undefined;
  const token = hash === undefined ? newLinkToken() : undefined;
  return store.transaction().execute(async (trx) => {
    const user = await findUserByEmail(trx, email);
    if (!user) throw new CoppiceError('not_found', { noun: `user with the address ${email}` });
    if (reset.drop_second_factor) await dropSecondFactor(trx, user.id);
    if (hash !== undefined) await setPasswordHash(trx, user.id, hash);
    else {
      await endSessionsOf(trx, user.id);
      const expires_at = new Date(Date.now() + LIMITS.password_link_seconds * 1000);
      await replaceLink(trx, { user_id: user.id }, { token_hash: hashOfLink(token!), expires_at, mailed: false });
    }
    return { user, token };
  });
}

/** The secret of a link: 256 random bits. */
export const newLinkToken = (): string => randomBytes(32).toString('base64url');

/** Where a link leads. What is behind the # stays in the browser: no server's log has it. */
export const linkUrl = (public_url: string, token: string): string => `${public_url}/login/link#${token}`;
