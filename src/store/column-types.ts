import type { ColumnType } from 'kysely';

/** How columns of our own database are read and written. */

export type Time = ColumnType<Date, Date | undefined, Date>;
export type OptionalTime = ColumnType<Date | null, Date | null | undefined, Date | null>;
export type Json<T> = ColumnType<T, string, string>;
export type OptionalJson<T> = ColumnType<T | null, string | null | undefined, string | null>;
/** bigint columns are read as numbers (see connection.ts); none of ours outgrows 2^53. */
export type Big = ColumnType<number, number | undefined, number>;
