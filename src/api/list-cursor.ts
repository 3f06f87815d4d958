import { CoppiceError } from '../domain/errors.ts';

/** Where a page of a list ended, and how the list was sorted. */
export interface ListCursor<Column extends string> {
  readonly sort_by: Column;
  /** The text of the sort column, microseconds and all. */
  readonly key: string;
  readonly id: string;
}

/** What each column's keys look like, and the ids: a cursor with anything else was not ours. */
export interface ListOrder<Column extends string> {
  readonly columns: Readonly<Record<Column, RegExp>>;
  readonly id: RegExp;
}

export const ANY_KEY = /^[^\0]*$/;
export const UUID_KEY = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
export const TIME_KEY = /^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d{1,6})?[+-]\d\d(:\d\d)?$/;

/** The cursor as text that means nothing to clients. */
function formatListCursor({ sort_by, key, id }: ListCursor<string>): string {
  return Buffer.from(JSON.stringify([sort_by, key, id])).toString('base64url');
}

/** Reads a cursor that we gave; throws `invalid_request` for any other text. */
export function parseListCursor<Column extends string>(text: string, order: ListOrder<Column>): ListCursor<Column> {
  const invalid = new CoppiceError('invalid_request', { field: 'cursor', problem: 'is not a cursor of this list' });
  let fields: unknown;
  try {
    fields = JSON.parse(Buffer.from(text, 'base64url').toString());
  } catch {
    throw invalid;
  }
  if (!Array.isArray(fields) || fields.length !== 3) throw invalid;
  const [sort_by, key, id] = fields;
  if (typeof sort_by !== 'string' || typeof key !== 'string' || typeof id !== 'string') throw invalid;
  if (!Object.hasOwn(order.columns, sort_by)) throw invalid;
  if (!order.columns[sort_by as Column].test(key) || !order.id.test(id)) throw invalid;
  return { sort_by: sort_by as Column, key, id };
}

/** How a list is sorted: as asked, else as its cursor says. Throws where the two differ. */
export function sortColumn<Column extends string>(
  asked: Column | undefined,
  after: ListCursor<Column> | undefined,
  otherwise: Column,
): Column {
  const sort_by = asked ?? after?.sort_by ?? otherwise;
  if (after && after.sort_by !== sort_by) {
    throw new CoppiceError('invalid_request', { field: 'cursor', problem: `is of a list by ${after.sort_by}` });
  }
  return sort_by;
}

/**
 * A page of a list, and what clients are told of it.
 *
 * @param rows one more than the page holds, where there are more
 * @param limit of a page; everything is on one without
 */
export function pageOf<Row extends { readonly sort_key: string; readonly id: string }, Order extends string>(
  rows: readonly Row[],
  limit: number | undefined,
  sorted: { readonly sort_by: string; readonly sort_order: Order },
) {
  const page = rows.slice(0, limit);
  const last = rows.length > page.length ? page.at(-1) : undefined;
  const { sort_by, sort_order } = sorted;
  const next = last && formatListCursor({ sort_by, key: last.sort_key, id: last.id });
  return { page, pagination: { next, sort_by, sort_order } };
}
