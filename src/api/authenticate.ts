import type { Caller, MembershipRole } from '../actions/caller.ts';
import type { ActionContext } from '../actions/context.ts';
import { hashApiKey } from '../domain/credentials.ts';
import { CoppiceError } from '../domain/errors.ts';
import { findKeyHolder, type KeyHolderRow } from '../store/api-keys.ts';

const BEARER = /^Bearer +(\S{1,256})$/i;

/** Who sent a request with this `Authorization` header. Throws `unauthenticated`, whatever is wrong with it. */
export async function authenticate(context: ActionContext, authorization: string | undefined): Promise<Caller> {
  const secret = BEARER.exec(authorization ?? '')?.[1];
  const holder = secret && (await findKeyHolder(context.store, hashApiKey(secret).toString('hex')));
  if (!holder) throw new CoppiceError('unauthenticated');
  return callerOf(holder);
}

function callerOf(holder: KeyHolderRow): Caller {
  const key = { key_id: holder.id, read_only: holder.read_only };
  if (holder.kind === 'personal') {
    return {
      kind: 'personal',
      ...key,
      user: { id: holder.user_id!, email: holder.email!, name: holder.user_name! },
      memberships: new Map(Object.entries(holder.memberships) as [string, MembershipRole][]),
    };
  }
  const organization_id = holder.organization_id!;
  return holder.kind === 'organization'
    ? { kind: 'organization', ...key, organization_id }
    : { kind: 'project', ...key, organization_id, project_id: holder.project_id! };
}
