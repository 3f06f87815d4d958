import type { FastifyRequest } from 'fastify';
import Type, { type TObject } from 'typebox';
import type { ActionContext } from '../../actions/context.ts';
import { readLoginLink, useLoginLink } from '../../actions/use-login-link.ts';
import { LIMITS } from '../../domain/limits.ts';
import { attributed } from '../../store/attributed.ts';
import { whence } from '../attribution.ts';
import { sessionCaller } from '../authenticate.ts';
import { Email, Name } from '../schemas/fields.ts';
import { shownBy } from '../web-origin.ts';
import { ISSUER_ID } from './issuer.ts';

export interface LoginRoute {
  readonly method: 'GET' | 'POST';
  /** Below /api/auth; the same as the library's, where it is the library that answers. */
  readonly path: string;
  readonly summary: string;
  readonly body?: TObject;
  /** Somebody might guess here: attempts are counted. */
  readonly guess?: true;
  /** What the audit log calls what it changes. */
  readonly action?: string;
  /** For those who log in elsewhere; not there where nobody does. */
  readonly issuer?: true;
  /** What the library is told whatever the caller says. */
  readonly fixed?: Readonly<Record<string, unknown>>;
  /** Answers instead of the library. */
  readonly handle?: (input: LoginInput) => Promise<unknown>;
}

interface LoginInput {
  readonly context: ActionContext;
  readonly request: FastifyRequest;
  /** Checked against `body`. */
  readonly fields: Readonly<Record<string, unknown>>;
}

const Password = Type.String({ minLength: 1, maxLength: LIMITS.password_characters_max });
const NewPassword = Type.String({
  minLength: LIMITS.password_characters_min,
  maxLength: LIMITS.password_characters_max,
});
/** Of a link. */
const Token = Type.String({ pattern: '^[\\w-]{43}$' });
const PasswordAgain = Type.Object({ password: Password });

/** The one table of logging in. What the library could do besides is not served. */
export const LOGIN_ROUTES: readonly LoginRoute[] = [
  {
    method: 'POST',
    path: '/sign-in/email',
    summary: 'Logs in by e-mail address and password',
    body: Type.Object({ email: Email, password: Password, rememberMe: Type.Optional(Type.Boolean()) }),
    guess: true,
  },
  {
    method: 'POST',
    path: '/sign-in/social',
    summary: 'Begins a login elsewhere (OpenID Connect): gives the address to go to',
    body: Type.Object({ callbackURL: Type.Optional(Type.String({ maxLength: LIMITS.outbound_url_characters })) }),
    guess: true,
    issuer: true,
    fixed: { provider: ISSUER_ID, disableRedirect: true },
  },
  {
    method: 'GET',
    path: `/callback/${ISSUER_ID}`,
    summary: 'Where the issuer sends people back to',
    issuer: true,
    action: 'user.sign_in',
  },
  { method: 'POST', path: '/sign-out', summary: 'Ends the session', action: 'user.sign_out' },
  { method: 'GET', path: '/get-session', summary: 'Shows the session and its person; null without one' },
  { method: 'GET', path: '/list-sessions', summary: "Lists the person's sessions" },
  {
    method: 'POST',
    path: '/revoke-session',
    summary: "Ends another of the person's sessions",
    body: Type.Object({ token: Type.String({ maxLength: 128 }) }),
    action: 'user.end_session',
  },
  {
    method: 'POST',
    path: '/revoke-other-sessions',
    summary: "Ends all of the person's sessions but this one",
    action: 'user.end_sessions',
  },
  {
    method: 'POST',
    path: '/change-password',
    summary: 'Changes the password, and ends all other sessions',
    body: Type.Object({ currentPassword: Password, newPassword: NewPassword }),
    guess: true,
    action: 'user.change_password',
    fixed: { revokeOtherSessions: true },
  },
  {
    method: 'POST',
    path: '/two-factor/enable',
    summary: 'Begins to ask for codes (TOTP): shows the secret, and backup codes. It counts once a code was verified',
    body: PasswordAgain,
    guess: true,
    action: 'user.enable_two_factor',
    fixed: { method: 'totp' },
  },
  {
    method: 'POST',
    path: '/two-factor/verify-totp',
    summary: 'Goes on with a login, or with enabling, by a code',
    body: Type.Object({ code: Type.String({ pattern: '^\\d{6}$' }) }),
    guess: true,
    action: 'user.verify_two_factor',
  },
  {
    method: 'POST',
    path: '/two-factor/verify-backup-code',
    summary: 'Goes on with a login by a backup code, once for each',
    body: Type.Object({ code: Type.String({ minLength: 1, maxLength: 64 }) }),
    guess: true,
    action: 'user.use_backup_code',
  },
  {
    method: 'POST',
    path: '/two-factor/generate-backup-codes',
    summary: 'Makes new backup codes in place of the old ones',
    body: PasswordAgain,
    guess: true,
    action: 'user.new_backup_codes',
  },
  {
    method: 'POST',
    path: '/two-factor/disable',
    summary: 'Asks for codes no more',
    body: PasswordAgain,
    guess: true,
    action: 'user.disable_two_factor',
  },
  {
    method: 'POST',
    path: '/link',
    summary: 'Shows what a one-time link is for, without using it',
    body: Type.Object({ token: Token }),
    guess: true,
    handle: async ({ context, fields }) => {
      const { email, organization_name, has_account } = await readLoginLink(context, fields.token as string);
      return { email, organization: organization_name ?? undefined, has_account };
    },
  },
  {
    method: 'POST',
    path: '/use-link',
    summary:
      'Sets a password by a one-time link, or accepts an invitation: by a password of a new person, or logged in',
    body: Type.Object({
      token: Token,
      password: Type.Optional(NewPassword),
      name: Type.Optional(Name(LIMITS.short_name_characters)),
    }),
    guess: true,
    handle: async ({ context, request, fields }) => {
      const caller = await sessionCaller(context, shownBy(request, context.installation.public_url));
      const store = attributed(context.store, {
        actor_kind: 'session',
        action: 'user.use_link',
        ...whence(request),
        ...(caller && { user_id: caller.user.id, user_email: caller.user.email }),
      });
      const { token, password, name } = fields as { token: string; password?: string; name?: string };
      return useLoginLink({ store }, { token, password, name, caller });
    },
  },
];
