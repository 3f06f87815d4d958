import { CoppiceError } from '../domain/errors.ts';

/** Reads when a snapshot is to go, RFC 3339; whole seconds count. It lies ahead, however far. */
export function readSnapshotExpiry(field: string, text: string, now: Date): Date {
  const expires_at = new Date(Math.floor(Date.parse(text) / 1000) * 1000);
  const refuse = (problem: string) => new CoppiceError('invalid_request', { field, problem });
  if (Number.isNaN(expires_at.getTime())) throw refuse('must be a date and time with a time zone');
  if (expires_at <= now) throw refuse('must lie in the future');
  return expires_at;
}
