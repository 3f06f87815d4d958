import { isReservedRole } from '../../domain/names.ts';
import { type Authenticated, type AuthenticationContext, checkPassword } from '../authenticate.ts';
import type { TokenDirectory } from '../contract.ts';
import { refusals } from '../refusal.ts';
import type { ConnectionString } from './connection-string.ts';
import type { TokenVerifier } from './verify-token.ts';

export interface LetInContext extends AuthenticationContext {
  /** Undefined where no tokens are taken. */
  readonly tokens: { readonly directory: TokenDirectory; readonly verifier: TokenVerifier } | undefined;
}

const BEARER = /^Bearer +([\w.~+/=-]+)$/i;

/**
 * Lets a request in by the password of its connection string, or by the token in `Authorization`. Nothing is woken. Throws
 * a Refusal.
 */
export async function letIn(
  { user, route, password }: ConnectionString,
  authorization: string | undefined,
  context: LetInContext,
): Promise<Authenticated> {
  const token = BEARER.exec(authorization ?? '')?.[1];
  if (token === undefined) {
    if (password === undefined) throw refusals.passwordMissing();
    return checkPassword({ user, route, password }, context);
  }
  if (password !== undefined) throw refusals.passwordAndToken();
  // Who looks into the past of a branch proves to be a role of it.
  if (!context.tokens || 'branch_id' in route) throw refusals.tokensNotTaken();
  const { directory, verifier } = context.tokens;
  const id = route.endpoint_id;
  const [destination, issuers] = await ask(() =>
    Promise.all([context.directory.endpoint(id), isReservedRole(user) ? [] : directory.issuers(id, user)]),
  );
  const claims = await verifier.verify(token, destination ? issuers : []);
  const keys = await ask(() => directory.keys(id, user));
  if (!keys) throw refusals.tokenRoleWithoutKeys(user);
  return { route, destination: destination!, keys, claims };
}

async function ask<T>(question: () => Promise<T>): Promise<T> {
  try {
    return await question();
  } catch (cause) {
    throw refusals.controlPlane(cause);
  }
}
