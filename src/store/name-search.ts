import { type RawBuilder, sql } from 'kysely';

/**
 * Whether a row's name or id holds a text, whatever the case of its letters. The text is folded once for all rows, and ids
 * have small letters only: looking at a row costs little, which counts where a search finds few of many.
 */
export function nameOrIdHas(table: 'branches' | 'projects', text: string): RawBuilder<boolean> {
  const pattern = sql`(select lower(${`%${text.replace(/[\\%_]/g, '\\$&')}%`}::text))`;
  return sql<boolean>`(lower(${sql.ref(`${table}.name`)}) like ${pattern} or ${sql.ref(`${table}.id`)} like ${pattern})`;
}
