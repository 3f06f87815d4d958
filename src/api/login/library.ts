import { createHash } from 'node:crypto';
import type { FastifyBaseLogger } from 'fastify';
import type { ActionContext } from '../../actions/context.ts';
import { LIMITS } from '../../domain/limits.ts';
import { hashPassword, isPassword } from '../../domain/passwords.ts';
import { cookiePrefix, loginSecret } from '../../domain/session-cookie.ts';
import type { SingleSignOn } from '../../domain/single-sign-on.ts';
import { attributedWhere } from '../../store/attributed.ts';
import { useCode } from '../../store/logins.ts';
import { acting } from './acting.ts';
import { issuerOptions } from './issuer.ts';

/** Below which the library answers. */
export const LOGIN_PREFIX = '/api/auth';
/** Told of by `openLibrary`: where a client's address stands, which nobody else can say. */
export const ADDRESS_HEADER = 'x-coppice-client-address';

export interface LoginLibrary {
  handler(request: Request): Promise<Response>;
}

/** A code of TOTP is taken for a minute and a half at most: its own half minute, the one before and the one after. */
const CODE_SECONDS = 120;

/**
 * The library that people log in with, for requests that came over TLS or for those in the clear: their cookies differ. It
 * is loaded when somebody logs in for the first time, since it takes some of the memory that an idle Coppice does without.
 * Nothing that it could tell its makers is told.
 *
 * @param sso where people log in elsewhere: it asks the issuer for its configuration at once
 */
export async function openLibrary(
  context: ActionContext,
  { secure, logger, sso }: { secure: boolean; logger: FastifyBaseLogger; sso: SingleSignOn | undefined },
): Promise<LoginLibrary> {
  const [{ betterAuth }, { twoFactor }, { createAuthMiddleware, getSessionFromCtx, APIError }] = await Promise.all([
    import('better-auth'),
    import('better-auth/plugins/two-factor'),
    import('better-auth/api'),
  ]);
  const { public_url } = context.installation;
  const issuer = sso && (await issuerOptions(context, sso));
  const db = attributedWhere(context.store, () => acting.getStore()?.attribution).withSchema('coppice_auth');
  /** Each code is taken once: whoever looks on while it is typed cannot use it, too. */
  const takeCodesOnce = createAuthMiddleware(async (ctx) => {
    if (ctx.path !== '/two-factor/verify-totp' && ctx.path !== '/two-factor/verify-backup-code') return;
    const session = await getSessionFromCtx(ctx);
    const cookie = await ctx.getSignedCookie(ctx.context.createAuthCookie('two_factor').name, ctx.context.secret);
    const waiting = cookie ? await ctx.context.internalAdapter.findVerificationValue(cookie) : null;
    const user_id = session?.user.id ?? waiting?.value;
    const store = acting.getStore();
    if (user_id === undefined) return;
    if (store) store.person = user_id;
    if (ctx.path !== '/two-factor/verify-totp') return;
    const code_hash = createHash('sha256').update(`${user_id} ${ctx.body?.code}`).digest();
    const expires_at = new Date(Date.now() + CODE_SECONDS * 1000);
    if (await useCode(context.store, { user_id, code_hash, expires_at })) return;
    throw new APIError('UNAUTHORIZED', { code: 'INVALID_CODE', message: 'Invalid code' });
  });
  return betterAuth({
    appName: 'Coppice',
    baseURL: public_url,
    basePath: LOGIN_PREFIX,
    secret: loginSecret(context.vault),
    telemetry: { enabled: false },
    database: { db, type: 'postgres', transaction: true },
    // Our own errors are thrown as they are; its own become answers.
    onAPIError: { throw: true, errorURL: `${public_url}/login` },
    logger: { level: 'error', log: (_level, message) => logger.warn({ reason: message }, 'a login failed') },
    trustedOrigins: (request) => [request?.headers.get('origin')],
    emailAndPassword: {
      enabled: true,
      disableSignUp: true,
      minPasswordLength: LIMITS.password_characters_min,
      maxPasswordLength: LIMITS.password_characters_max,
      password: { hash: hashPassword, verify: ({ hash, password }) => isPassword(password, hash) },
    },
    ...TABLES,
    user: { ...TABLES.user, ...issuer?.user },
    databaseHooks: issuer?.databaseHooks,
    rateLimit: { enabled: false },
    hooks: { before: takeCodesOnce },
    plugins: [
      twoFactor({
        issuer: 'Coppice',
        accountLockout: { maxFailedAttempts: LIMITS.wrong_codes, durationSeconds: LIMITS.wrong_codes_lock_seconds },
        schema: TWO_FACTOR_TABLE,
      }),
      ...(issuer?.plugins ?? []),
    ],
    advanced: {
      database: { generateId: 'uuid', validateSchema: false },
      cookiePrefix: cookiePrefix(secure),
      useSecureCookies: false,
      defaultCookieAttributes: { secure, sameSite: 'lax', httpOnly: true, path: '/' },
      disableOriginCheck: false,
      disableCSRFCheck: false,
      ipAddress: { ipAddressHeaders: [ADDRESS_HEADER], ipv6Subnet: 128 },
    },
  });
}

/** Its tables, in the words of ours. */
const TABLES = {
  user: {
    modelName: 'users',
    fields: { emailVerified: 'email_verified', createdAt: 'created_at', updatedAt: 'updated_at' },
  },
  session: {
    modelName: 'sessions',
    fields: {
      userId: 'user_id',
      expiresAt: 'expires_at',
      createdAt: 'created_at',
      updatedAt: 'updated_at',
      ipAddress: 'ip_address',
      userAgent: 'user_agent',
    },
    expiresIn: LIMITS.session_seconds,
    updateAge: LIMITS.session_renewal_seconds,
    // What needs more than a session asks for the password.
    freshAge: 0,
  },
  account: {
    modelName: 'accounts',
    fields: {
      userId: 'user_id',
      providerId: 'provider_id',
      accountId: 'account_id',
      accessToken: 'access_token',
      refreshToken: 'refresh_token',
      idToken: 'id_token',
      accessTokenExpiresAt: 'access_token_expires_at',
      refreshTokenExpiresAt: 'refresh_token_expires_at',
      createdAt: 'created_at',
      updatedAt: 'updated_at',
    },
    updateAccountOnSignIn: false,
  },
  verification: {
    modelName: 'verifications',
    fields: { expiresAt: 'expires_at', createdAt: 'created_at', updatedAt: 'updated_at' },
    storeIdentifier: 'hashed',
  },
} as const;

const TWO_FACTOR_TABLE = {
  user: { fields: { twoFactorEnabled: 'two_factor_enabled' } },
  twoFactor: {
    modelName: 'two_factors',
    fields: {
      userId: 'user_id',
      backupCodes: 'backup_codes',
      failedVerificationCount: 'failed_verification_count',
      lockedUntil: 'locked_until',
    },
  },
} as const;
