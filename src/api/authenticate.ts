import type { Caller, MembershipRole } from '../actions/caller.ts';
import type { ActionContext } from '../actions/context.ts';
import { hashApiKey } from '../domain/credentials.ts';
import { CoppiceError } from '../domain/errors.ts';
import { sessionTokenIn } from '../domain/session-cookie.ts';
import { findKeyHolder, type KeyHolderRow } from '../store/api-keys.ts';
import { findSessionHolder, type SessionHolderRow } from '../store/sessions.ts';

const BEARER = /^Bearer +(\S{1,256})$/i;

/** What a request shows of who sends it. */
export interface Shown {
  readonly authorization: string | undefined;
  readonly cookie: string | undefined;
  /** It came over TLS. */
  readonly secure: boolean;
}

/**
 * Who sent a request: the key of the `Authorization` header, or the session of the cookie where there is no such header. Throws
 * `unauthenticated`, whatever is wrong with it.
 */
export async function authenticate(context: ActionContext, shown: Shown): Promise<Caller> {
  const caller =
    shown.authorization === undefined ? await sessionCaller(context, shown) : await keyCaller(context, shown);
  if (!caller) throw new CoppiceError('unauthenticated');
  return caller;
}

async function keyCaller(context: ActionContext, { authorization }: Shown): Promise<Caller | undefined> {
  const secret = BEARER.exec(authorization ?? '')?.[1];
  const holder = secret && (await findKeyHolder(context.store, hashApiKey(secret).toString('hex')));
  return holder ? callerOf(holder) : undefined;
}

/** The person of the session that a request's cookie names, if it is valid. */
export async function sessionCaller(
  { store, vault }: Pick<ActionContext, 'store' | 'vault'>,
  { cookie, secure }: Pick<Shown, 'cookie' | 'secure'>,
): Promise<SessionCaller | undefined> {
  const token = sessionTokenIn(cookie, secure, vault);
  const holder = token && (await findSessionHolder(store, token));
  return holder ? callerOfSession(holder) : undefined;
}

type SessionCaller = Extract<Caller, { kind: 'personal' }>;

const callerOfSession = (holder: SessionHolderRow): SessionCaller => ({
  kind: 'personal',
  session_id: holder.session_id,
  read_only: false,
  user: { id: holder.user_id, email: holder.email, name: holder.user_name },
  memberships: membershipsOf(holder),
});

const membershipsOf = ({ memberships }: Pick<KeyHolderRow, 'memberships'>): ReadonlyMap<string, MembershipRole> =>
  new Map(Object.entries(memberships) as [string, MembershipRole][]);

function callerOf(holder: KeyHolderRow): Caller {
  const key = { key_id: holder.id, read_only: holder.read_only };
  if (holder.kind === 'personal') {
    return {
      kind: 'personal',
      ...key,
      user: { id: holder.user_id!, email: holder.email!, name: holder.user_name! },
      memberships: membershipsOf(holder),
    };
  }
  const organization_id = holder.organization_id!;
  return holder.kind === 'organization'
    ? { kind: 'organization', ...key, organization_id }
    : { kind: 'project', ...key, organization_id, project_id: holder.project_id! };
}
