import { type RawBuilder, sql } from 'kysely';

/** What a column is compared with by `=` to be one of `ids`. Unlike `in`, the statement's text is the same for any number. */
export const anyOf = (ids: readonly string[], type: 'text' | 'uuid' = 'text'): RawBuilder<string> =>
  sql<string>`any(${ids}::${sql.raw(type)}[])`;

/**
 * Fixed values, written into the statement: a plan for any values could not know that the index of just these will do.
 * @param values of our own, never of a caller
 */
export const oneOf = <const V extends string>(values: readonly V[]): RawBuilder<V>[] =>
  values.map((value) => sql.lit(value) as RawBuilder<V>);
