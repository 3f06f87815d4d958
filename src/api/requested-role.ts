import type { MembershipRole } from '../actions/caller.ts';
import { CoppiceError } from '../domain/errors.ts';
import type { RequestedRole } from './schemas/member.ts';

/** The role that a request means. Those that do not exist here are `not_available`, rather than taken for another one. */
export function membershipRole(requested: RequestedRole): MembershipRole {
  if (requested === 'viewer' || requested === 'collaborator') {
    throw new CoppiceError('not_available', { feature: `the role ${requested}` });
  }
  return requested === 'admin' ? 'admin' : 'member';
}
