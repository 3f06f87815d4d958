import { CoppiceError } from '../domain/errors.ts';
import type { AskedPoint } from '../domain/history.ts';
import { parseLsn } from '../domain/lsn.ts';

/** RFC 3339, with up to nine decimals; a space for the `T`, as Postgres prints it, is taken too. */
const TIMESTAMP = /^(\d{4}-\d\d-\d\d)[Tt ](\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|z|[+-]\d\d:?\d\d)$/;

/** What a request says about a point, in the fields of these names. */
export interface PointRequest {
  readonly lsn?: { readonly field: string; readonly value: string | undefined };
  readonly timestamp?: { readonly field: string; readonly value: string | undefined };
}

/** The point that a request names; undefined when it names none. Throws `invalid_request` for both, and for texts that are none. */
export function readAskedPoint({ lsn, timestamp }: PointRequest): AskedPoint | undefined {
  if (lsn?.value && timestamp?.value) {
    throw new CoppiceError('invalid_request', { field: lsn.field, problem: `excludes ${timestamp.field}` });
  }
  if (lsn?.value) return { lsn: checkLsn(lsn.field, lsn.value) };
  if (timestamp?.value) return { timestamp_us: readMicroseconds(timestamp.field, timestamp.value) };
  return undefined;
}

function checkLsn(field: string, value: string): string {
  try {
    parseLsn(value);
  } catch {
    throw new CoppiceError('invalid_request', { field, problem: 'must be an LSN such as 0/1A2B3C8' });
  }
  return value;
}

function readMicroseconds(field: string, value: string): bigint {
  const [, day, time, decimals = '', zone = ''] = TIMESTAMP.exec(value) ?? [];
  const offset = zone.toUpperCase() === 'Z' ? 'Z' : zone.replace(/^(.\d\d):?(\d\d)$/, '$1:$2');
  const seconds = Date.parse(`${day}T${time}${offset}`);
  // February 31 would be taken for a day of March.
  const known = day !== undefined && new Date(`${day}T00:00:00Z`).getUTCDate() === Number(day.slice(8));
  if (Number.isNaN(seconds) || !known) {
    const problem = 'must be a time with its zone such as 2026-11-21T20:54:00Z';
    throw new CoppiceError('invalid_request', { field, problem });
  }
  return BigInt(seconds) * 1000n + BigInt(decimals.slice(0, 6).padEnd(6, '0'));
}
