import { LIMITS } from './limits.ts';

const RESERVED_ROLES = new Set([
  'neon_superuser',
  'cloud_admin',
  'coppice_replica',
  'zenith_admin',
  'coppice_schema_reader',
  'web_access',
  'public',
  'none',
  'postgres',
]);
const RESERVED_DATABASES = new Set(['postgres', 'template0', 'template1']);

/** Roles that the platform owns; customers never create, change or log in as one. */
export const isReservedRole = (name: string): boolean => name.startsWith('pg_') || RESERVED_ROLES.has(name);
export const isReservedDatabase = (name: string): boolean => RESERVED_DATABASES.has(name);

/** Why a name cannot be a Postgres identifier; undefined when it can. */
export function identifierProblem(name: string): string | undefined {
  if (name.length === 0) return 'must not be empty';
  if (Buffer.byteLength(name) > LIMITS.identifier_bytes) return `must be at most ${LIMITS.identifier_bytes} bytes`;
  if (name.includes('\0')) return 'must not contain a zero byte';
  return undefined;
}

/** Why a text cannot name a project, branch, key or endpoint; undefined when it can. Counts code points. */
export function nameProblem(name: string, limit: number = LIMITS.name_characters): string | undefined {
  const length = [...name].length;
  if (length === 0) return 'must not be empty';
  if (length > limit) return `must be at most ${limit} characters`;
  if (/[\u0000-\u001f\u007f]/.test(name)) return 'must not contain control characters';
  return undefined;
}

/** Why a text cannot be the address of a user; undefined when it can. */
export function emailProblem(email: string): string | undefined {
  if (email.length > LIMITS.email_characters) return `must be at most ${LIMITS.email_characters} characters`;
  return /^[^\s@]+@[^\s@]+$/.test(email) ? undefined : 'is not an e-mail address';
}
