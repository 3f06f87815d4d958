import type { ErrorKind } from './errors.ts';

/** Rows of the error table (`errors.ts`): of people who log in. */
export const LOGIN_ERRORS = {
  origin_refused: {
    status: 403,
    code: '',
    message:
      'with a session, changes are taken from pages of this host alone; the Origin header names another one, or none',
    retry: 'never',
  },
  sign_in_refused: { status: 401, code: '', message: 'wrong e-mail address or password', retry: 'after_change' },
  sign_ins_limited: {
    status: 429,
    code: '',
    message: 'too many attempts to sign in, please wait',
    retry: 'safe',
  },
  sign_in_expired: {
    status: 401,
    code: '',
    message: 'this login took too long or too many attempts; sign in again',
    retry: 'after_change',
  },
  code_refused: {
    status: 401,
    code: '',
    message: 'wrong code, or one that was used already',
    retry: 'after_change',
  },
  codes_locked: {
    status: 429,
    code: '',
    message: 'too many wrong codes; none is taken for {minutes} minutes',
    retry: 'safe',
  },
  password_refused: { status: 403, code: '', message: 'the current password is wrong', retry: 'after_change' },
  password_absent: {
    status: 409,
    code: '',
    message: 'this person has no password; a link to set one is made by: coppice users reset',
    retry: 'after_change',
  },
  two_factor_state: {
    status: 409,
    code: '',
    message: 'two-factor authentication is {state}',
    retry: 'never',
  },
  link_unusable: {
    status: 410,
    code: '',
    message: 'this link was used, has expired, or was replaced by a newer one',
    retry: 'never',
  },
  login_needed: {
    status: 409,
    code: '',
    message: 'there is an account of {email}: log in with it, then open the link again',
    retry: 'after_change',
  },
  login_refused: { status: 400, code: '', message: 'this login is not possible: {reason}', retry: 'after_change' },
} as const satisfies Record<string, ErrorKind>;
