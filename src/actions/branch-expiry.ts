import { CoppiceError } from '../domain/errors.ts';
import { LIMITS } from '../domain/limits.ts';

/** When a branch is to be deleted by itself. */
export interface BranchExpiry {
  readonly expires_at: Date;
  readonly ttl_interval_seconds: number;
}

/** Reads a time of expiry, RFC 3339; whole seconds count. It lies ahead, by 30 days at most. */
export function readExpiry(text: string, now: Date): BranchExpiry {
  const expires_at = new Date(Math.floor(Date.parse(text) / 1000) * 1000);
  const ttl_interval_seconds = Math.round((expires_at.getTime() - now.getTime()) / 1000);
  const refuse = (problem: string) => new CoppiceError('invalid_request', { field: 'branch.expires_at', problem });
  if (Number.isNaN(ttl_interval_seconds)) throw refuse('must be a date and time with a time zone');
  if (expires_at <= now) throw refuse('must lie in the future');
  if (ttl_interval_seconds > LIMITS.branch_expiry_seconds_max) throw refuse('must lie at most 30 days ahead');
  return { expires_at, ttl_interval_seconds };
}

/** When a branch expires that lives as long again as it was to live; null: it does not. */
export function restartExpiry(
  branch: { readonly expires_at: Date | null; readonly ttl_interval_seconds: number | null },
  now: Date,
): Date | null {
  if (!branch.expires_at || branch.ttl_interval_seconds === null) return branch.expires_at;
  return new Date((Math.floor(now.getTime() / 1000) + branch.ttl_interval_seconds) * 1000);
}
