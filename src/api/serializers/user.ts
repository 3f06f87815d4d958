import type { Caller, PersonalCaller } from '../../actions/caller.ts';
import { AUTOSCALING_MAX_CU } from '../../domain/compute-size.ts';
import type { AuthDetails, CurrentUser } from '../schemas/user.ts';

/** Clients compare with these limits, so that "none" has to be a large number. */
const UNLIMITED = 2 ** 31 - 1;

/** The person who calls. */
export function serializeCurrentUser({ user }: PersonalCaller): CurrentUser {
  const { email, name } = user;
  const shown = { email, image: '', login: email, name };
  return {
    ...shown,
    id: user.id,
    last_name: '',
    auth_accounts: [{ ...shown, provider: 'keycloak' }],
    active_seconds_limit: 0,
    projects_limit: UNLIMITED,
    branches_limit: UNLIMITED,
    max_autoscaling_limit: AUTOSCALING_MAX_CU,
    plan: 'self-hosted',
  };
}

/** A project's key speaks for the organisation, as in the public API. */
export function serializeAuthDetails(caller: Caller): AuthDetails {
  if (caller.kind === 'personal' && caller.session_id !== undefined) {
    return { account_id: caller.user.id, auth_method: 'session_cookie' };
  }
  return caller.kind === 'personal'
    ? { account_id: caller.user.id, auth_method: 'api_key_user' }
    : { account_id: caller.organization_id, auth_method: 'api_key_org' };
}
