import { createHash } from 'node:crypto';
import { CoppiceError } from '../domain/errors.ts';
import type { UserId } from '../domain/ids.ts';
import { hashPassword, passwordProblem } from '../domain/passwords.ts';
import type { StoreTransaction } from '../store/connection.ts';
import { acceptInvitation, acceptInvitations } from '../store/invitations.ts';
import { deleteLinks, findLink, type LinkRow, takeLink } from '../store/login-links.ts';
import { replacePassword } from '../store/logins.ts';
import { endSessionsOf } from '../store/sessions.ts';
import { findUserByEmail, insertUser, lockPeople, vouchForAddress } from '../store/users.ts';
import type { PersonalCaller } from './caller.ts';
import type { ActionContext } from './context.ts';

/** What the secret of a link is kept as. It is random, so a slow hash would add nothing. */
export const hashOfLink = (token: string): Buffer => createHash('sha256').update(token).digest();

/** What a link is for. */
export interface LoginLink extends LinkRow {
  /** Of an invitation: somebody has the address, and accepts by logging in. */
  readonly has_account: boolean;
}

/** What a link is for, without using it. Throws `link_unusable`. */
export async function readLoginLink({ store }: Pick<ActionContext, 'store'>, token: string): Promise<LoginLink> {
  const link = await findLink(store, hashOfLink(token));
  if (!link) throw new CoppiceError('link_unusable');
  return { ...link, has_account: (await findUserByEmail(store, link.email)) !== undefined };
}

export interface LinkUse {
  readonly token: string;
  /** Of a new person, or in place of the old one. */
  readonly password?: string;
  /** Of a new person. */
  readonly name?: string;
  /** Who is logged in. */
  readonly caller?: PersonalCaller;
}

/**
 * Uses a link, once. That of a person sets the password: whoever was logged in as that person is no more. That of an invitation
 * makes the person, or makes whoever is logged in a member, if the invitation is for that person.
 *
 * Throws `link_unusable`; what leaves the link as it is: `invalid_request` for what cannot be a password, and
 * `login_needed` where the person has an account and somebody else, or nobody, is logged in.
 */
export async function useLoginLink(
  { store }: Pick<ActionContext, 'store'>,
  { token, password, name = '', caller }: LinkUse,
): Promise<{ email: string }> {
  const token_hash = hashOfLink(token);
  // Before the hash, which costs more than looking: strangers have no link.
  if (!(await findLink(store, token_hash))) throw new CoppiceError('link_unusable');
  const hash = password === undefined ? undefined : await hashOf(password);
  return store.transaction().execute(async (trx) => {
    await lockPeople(trx);
    const link = await takeLink(trx, token_hash);
    if (!link) throw new CoppiceError('link_unusable');
    if (link.user_id) await setPasswordHash(trx, link.user_id, hash ?? noPassword());
    else await acceptByLink(trx, link, { hash, name, caller });
    return { email: link.email };
  });
}

/**
 * A link that was shown to whoever invites proves nothing of the address: it makes a member of that organisation, and of no
 * other that has invited the address or shares a project with it. One that was mailed does.
 */
async function acceptByLink(
  trx: StoreTransaction,
  { email, invitation_id, mailed }: LinkRow,
  { hash, name, caller }: { hash: string | undefined; name: string; caller: PersonalCaller | undefined },
): Promise<void> {
  const known = await findUserByEmail(trx, email);
  if (known && known.id !== caller?.user.id) throw new CoppiceError('login_needed', { email });
  const user = known ?? (await insertUser(trx, { email, name, email_verified: mailed }));
  if (!known) await replacePassword(trx, user.id, hash ?? noPassword());
  await acceptInvitation(trx, invitation_id!, user.id);
  if (!mailed) return;
  if (known) await vouchForAddress(trx, user.id);
  await acceptInvitations(trx, user);
}

function noPassword(): never {
  throw new CoppiceError('invalid_request', { field: 'password', problem: 'must be given' });
}

/** The hash of a password; throws `invalid_request` for what cannot be one. */
export async function hashOf(password: string): Promise<string> {
  const problem = passwordProblem(password);
  if (problem) throw new CoppiceError('invalid_request', { field: 'password', problem });
  return hashPassword(password);
}

/** Gives a person a password: sessions and links that the old one stood for end. */
export async function setPasswordHash(trx: StoreTransaction, user_id: UserId, hash: string): Promise<void> {
  await replacePassword(trx, user_id, hash);
  await endSessionsOf(trx, user_id);
  await deleteLinks(trx, { user_id });
}
