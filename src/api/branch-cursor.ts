import { CoppiceError } from '../domain/errors.ts';
import type { BranchListPosition, BranchSortColumn } from '../store/branches.ts';

/** Where a page of branches ended, and how the list was sorted. */
export interface BranchCursor extends BranchListPosition {
  readonly sort_by: BranchSortColumn;
}

/** The cursor as text that means nothing to clients. */
export function formatBranchCursor({ sort_by, key, id }: BranchCursor): string {
  return Buffer.from(JSON.stringify([sort_by, key, id])).toString('base64url');
}

/** Reads a cursor that we gave; throws `invalid_request` for any other text. */
export function parseBranchCursor(text: string): BranchCursor {
  const invalid = new CoppiceError('invalid_request', { field: 'cursor', problem: 'is not a cursor of this list' });
  let fields: unknown;
  try {
    fields = JSON.parse(Buffer.from(text, 'base64url').toString());
  } catch {
    throw invalid;
  }
  if (!Array.isArray(fields) || fields.length !== 3) throw invalid;
  const [sort_by, key, id] = fields;
  if (typeof key !== 'string' || typeof id !== 'string' || `${key}${id}`.includes('\0')) throw invalid;
  if (sort_by === 'name') return { sort_by, key, id };
  const isTime = /^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d{1,6})?[+-]\d\d(:\d\d)?$/.test(key);
  if ((sort_by !== 'created_at' && sort_by !== 'updated_at') || !isTime) throw invalid;
  return { sort_by, key, id };
}
