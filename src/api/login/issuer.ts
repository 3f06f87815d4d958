import type { BetterAuthOptions } from 'better-auth';
import type { ActionContext } from '../../actions/context.ts';
import { welcomePerson } from '../../actions/welcome-person.ts';
import { LIMITS } from '../../domain/limits.ts';
import { emailProblem } from '../../domain/names.ts';
import { isOwnDomain, type SingleSignOn } from '../../domain/single-sign-on.ts';
import { attributed } from '../../store/attributed.ts';
import { acting } from './acting.ts';

/** How the issuer is called in paths and among the ways to be a person. */
export const ISSUER_ID = 'sso';

type IssuerOptions = Required<Pick<BetterAuthOptions, 'plugins' | 'databaseHooks'>> & Pick<BetterAuthOptions, 'user'>;

/**
 * What the library does besides where people log in elsewhere. An address counts only if the issuer says that it has verified it,
 * and, where domains are named, is in one of them: each time, not only at first.
 */
export async function issuerOptions(context: ActionContext, sso: SingleSignOn): Promise<IssuerOptions> {
  const { genericOAuth } = await import('better-auth/plugins/generic-oauth');
  const store = () => {
    const attribution = acting.getStore()?.attribution;
    return attribution ? attributed(context.store, attribution) : context.store;
  };
  const welcome = async (profile: Record<string, unknown>): Promise<Record<string, never>> => {
    const { email, emailVerified, name } = profile;
    if (emailVerified !== true || typeof email !== 'string' || emailProblem(email) || !isOwnDomain(sso, email))
      return {};
    const shown = typeof name === 'string' ? [...name.replace(/[\u0000-\u001f\u007f]/g, ' ')] : [];
    await welcomePerson(
      { store: store() },
      {
        email,
        name: shown.slice(0, LIMITS.short_name_characters).join(''),
        anybody: sso.email_domains.length > 0,
      },
    );
    return {};
  };
  return {
    user: {
      validateUserInfo: ({ user }) =>
        user.emailVerified === true && isOwnDomain(sso, user.email ?? '')
          ? undefined
          : { error: 'address_not_accepted' },
    },
    // Nothing is done with them here.
    databaseHooks: {
      account: {
        create: {
          before: async (account) => ({
            data: { ...account, accessToken: null, refreshToken: null, idToken: null, scope: null },
          }),
        },
      },
    },
    plugins: [
      genericOAuth({
        config: [
          {
            providerId: ISSUER_ID,
            discoveryUrl: `${sso.issuer.replace(/\/$/, '')}/.well-known/openid-configuration`,
            clientId: sso.client_id,
            clientSecret: sso.client_secret,
            scopes: ['openid', 'email', 'profile'],
            pkce: true,
            requireIdTokenVerification: true,
            // Whoever is to have an account has one by then.
            disableSignUp: true,
            mapProfileToUser: welcome,
          },
        ],
      }),
    ],
  };
}
