import { CoppiceError } from '../../domain/errors.ts';
import { LIMITS } from '../../domain/limits.ts';

const expired = () => new CoppiceError('sign_in_expired');
const codeRefused = () => new CoppiceError('code_refused');
const twoFactor = (state: string) => () => new CoppiceError('two_factor_state', { state });

/** What the library says, in our words, by its codes. */
const REFUSALS: Readonly<Record<string, () => CoppiceError>> = {
  INVALID_EMAIL_OR_PASSWORD: () => new CoppiceError('sign_in_refused'),
  INVALID_EMAIL: () => new CoppiceError('sign_in_refused'),
  INVALID_PASSWORD: () => new CoppiceError('password_refused'),
  CREDENTIAL_ACCOUNT_NOT_FOUND: () => new CoppiceError('password_absent'),
  INVALID_CODE: codeRefused,
  INVALID_BACKUP_CODE: codeRefused,
  INVALID_TWO_FACTOR_COOKIE: expired,
  TOO_MANY_ATTEMPTS_REQUEST_NEW_CODE: expired,
  ACCOUNT_TEMPORARILY_LOCKED: () => new CoppiceError('codes_locked', { minutes: LIMITS.wrong_codes_lock_seconds / 60 }),
  TOTP_ALREADY_ENABLED: twoFactor('enabled already'),
  TOTP_NOT_ENABLED: twoFactor('not enabled'),
  TWO_FACTOR_NOT_ENABLED: twoFactor('not enabled'),
  BACKUP_CODES_NOT_ENABLED: twoFactor('not enabled'),
};

/** The error for an answer of the library's that is a refusal. */
export function refusalOf(status: number, body: unknown): CoppiceError {
  const { code = '', message = '' } = (body ?? {}) as { code?: string; message?: string };
  const known = REFUSALS[code];
  if (known) return known();
  if (status === 401) return new CoppiceError('unauthenticated');
  if (status >= 500) return new CoppiceError('internal');
  return new CoppiceError('login_refused', { reason: message.slice(0, 200) || code });
}
