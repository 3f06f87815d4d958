import { CoppiceError } from '../domain/errors.ts';
import type { OrganizationId, ProjectId, UserId } from '../domain/ids.ts';

export type MembershipRole = 'admin' | 'member';

interface Credential {
  /** Of an API key; absent for a person who has logged in. */
  readonly key_id?: number;
  /** Changes nothing, and is shown no passwords. */
  readonly read_only: boolean;
}

/** A person, and the organisations that the person belongs to now. */
export interface PersonalCaller extends Credential {
  readonly kind: 'personal';
  /** Of a person who has logged in, and may do what a personal key of that person may. */
  readonly session_id?: string;
  readonly user: { readonly id: UserId; readonly email: string; readonly name: string };
  readonly memberships: ReadonlyMap<OrganizationId, MembershipRole>;
}

/** Acts as an admin of one organisation, with no person behind it. */
export interface OrganizationCaller extends Credential {
  readonly kind: 'organization';
  readonly organization_id: OrganizationId;
}

/** Acts as a member on one project. */
export interface ProjectCaller extends Credential {
  readonly kind: 'project';
  readonly organization_id: OrganizationId;
  readonly project_id: ProjectId;
}

/** Who calls: what an API key or a session stands for. */
export type Caller = PersonalCaller | OrganizationCaller | ProjectCaller;
export type KeyKind = Caller['kind'];

/** The caller's role in an organisation; undefined when the caller has nothing to do with it. */
export function roleIn(caller: Caller, organizationId: OrganizationId): MembershipRole | undefined {
  if (caller.kind === 'personal') return caller.memberships.get(organizationId);
  if (caller.organization_id !== organizationId) return undefined;
  return caller.kind === 'organization' ? 'admin' : 'member';
}

/** The user to record as the maker of something; null for keys without a person behind them. */
export const callerUserId = (caller: Caller): UserId | null => (caller.kind === 'personal' ? caller.user.id : null);

/** The person who calls. Routes that need one turn other keys away before; throws `organization_key_refused` if not. */
export function personOf(caller: Caller): PersonalCaller {
  if (caller.kind !== 'personal') throw new CoppiceError('organization_key_refused');
  return caller;
}

/** The organisations that the caller has to do with. */
export function organizationsOf(caller: Caller): OrganizationId[] {
  return caller.kind === 'personal' ? [...caller.memberships.keys()] : [caller.organization_id];
}

/** What the caller came with, under a name that nothing else has. */
export const credentialName = (caller: Caller): string =>
  caller.kind === 'personal' && caller.session_id !== undefined
    ? `session:${caller.session_id}`
    : `key:${caller.key_id}`;
