import { pipeline } from 'node:stream/promises';
import { DatabaseError, escapeIdentifier } from 'pg';
import { from as copyFrom, to as copyTo } from 'pg-copy-streams';
import type { TableColumn } from '../domain/masking/given-arguments.ts';
import type { Session } from './session.ts';

/** A table that holds rows of its own. */
export interface RowsTable {
  readonly oid: number;
  readonly schema: string;
  readonly name: string;
  readonly owner: string;
  /** Those that are stored as they are given, in order. */
  readonly columns: readonly RowsColumn[];
  /** Those that are reckoned from others. */
  readonly generated: readonly string[];
}

export interface RowsColumn extends TableColumn {
  /** As it was declared, with its length. */
  readonly declared: string;
  /** Its type is one of the server's own, or an enumeration: a text can be tried without running anything of a customer's. */
  readonly plain_type: boolean;
}

/** Not of the system, and not of an extension, which makes its own. */
const OF_CUSTOMERS = `n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'
  AND NOT EXISTS (SELECT FROM pg_depend d
                   WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype = 'e')`;

/** Every table of a database that rows can be in: partitions, not what they are partitions of. */
export async function readRowsTables(session: Session): Promise<RowsTable[]> {
  const { rows } = await session.query<Omit<RowsTable, 'columns' | 'generated'>>(
    `SELECT c.oid, n.nspname AS schema, c.relname AS name, pg_get_userbyid(c.relowner) AS owner
       FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
      WHERE c.relkind = 'r' AND c.relpersistence <> 't' AND ${OF_CUSTOMERS} ORDER BY c.oid`,
  );
  const columns = await session.query<RowsColumn & { table: number; generated: boolean }>(
    `WITH RECURSIVE based AS (
       SELECT oid AS type, oid AS base FROM pg_type WHERE typtype <> 'd'
       UNION ALL SELECT t.oid, b.base FROM pg_type t JOIN based b ON b.type = t.typbasetype WHERE t.typtype = 'd'
     )
     SELECT a.attrelid AS "table", a.attname AS name, a.attgenerated <> '' AS generated,
            base.typname AS type, format_type(a.atttypid, a.atttypmod) AS declared,
            a.atttypid = base.oid AND (base.typnamespace = 'pg_catalog'::regnamespace OR base.typtype = 'e') AS plain_type,
            ARRAY(SELECT enumlabel::text FROM pg_enum WHERE enumtypid = base.oid ORDER BY enumsortorder) AS labels
       FROM pg_attribute a JOIN based b ON b.type = a.atttypid JOIN pg_type base ON base.oid = b.base
       JOIN pg_class c ON c.oid = a.attrelid
      WHERE c.relkind = 'r' AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attrelid, a.attnum`,
  );
  const byTable = Map.groupBy(columns.rows, ({ table }) => table);
  return rows.map((table) => {
    const own = byTable.get(table.oid) ?? [];
    return {
      ...table,
      columns: own.filter(({ generated }) => !generated),
      generated: own.filter(({ generated }) => generated).map(({ name }) => name),
    };
  });
}

/** A table by name, with the tables that its rows are in: its partitions and those that inherit from it, and itself. */
export async function findTablesBelow(session: Session, schema: string, name: string): Promise<number[]> {
  const { rows } = await session.query<{ oid: number }>(
    `WITH RECURSIVE below AS (
       SELECT c.oid FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE n.nspname = $1 AND c.relname = $2 AND c.relkind IN ('r', 'p') AND ${OF_CUSTOMERS}
       UNION SELECT inhrelid FROM pg_inherits JOIN below ON below.oid = inhparent
     ) SELECT oid FROM below`,
    [schema, name],
  );
  return rows.map(({ oid }) => oid);
}

export const qualified = ({ schema, name }: { schema: string; name: string }): string =>
  `${escapeIdentifier(schema)}.${escapeIdentifier(name)}`;

/**
 * Copies the rows of a table, as they stand in it and in nothing that inherits from it, into the same table of another
 * server, which is asked to take them as its owner.
 *
 * @param change what each row becomes on its way; what it does not read is not sent
 */
export async function copyTableRows(
  source: Session,
  target: Session,
  table: RowsTable,
  { unread, change, signal }: { unread: ReadonlySet<string>; change: RowsChange | undefined; signal: AbortSignal },
): Promise<void> {
  if (table.columns.length === 0) return;
  const names = table.columns.map(({ name }) => escapeIdentifier(name));
  const shown = table.columns.map(({ name }, at) => (unread.has(name) ? 'NULL' : names[at]));
  const out = source.query(copyTo(`COPY (SELECT ${shown.join(', ')} FROM ONLY ${qualified(table)}) TO STDOUT`));
  const into = target.query(copyFrom(`COPY ${qualified(table)} (${names.join(', ')}) FROM STDIN`));
  let failed: 'source' | 'target' | undefined;
  // The first to fail takes the other with it.
  out.once('error', () => (failed ??= 'source'));
  into.once('error', () => (failed ??= 'target'));
  const copied = change ? pipeline(out, change, into, { signal }) : pipeline(out, into, { signal });
  await copied.catch((error) => {
    const told = failed === 'source' && error instanceof DatabaseError;
    throw told ? new SourceUnreadable('the rows could not be read', { cause: error }) : error;
  });
}

/** What the source says of it is for nobody: a customer's function may have said it, who saw rows that are to be masked. */
export class SourceUnreadable extends Error {
  override name = 'SourceUnreadable';
}

/** Turns the bytes of COPY into others. */
export type RowsChange = (chunks: AsyncIterable<Buffer>) => AsyncIterable<string>;

/** The position of every sequence becomes what it is in the source. Runs nothing of a customer's. */
export async function copySequences(source: Session, target: Session): Promise<void> {
  const { rows } = await source.query<{ schema: string; name: string }>(
    `SELECT n.nspname AS schema, c.relname AS name FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
      WHERE c.relkind = 'S' AND c.relpersistence <> 't' AND ${OF_CUSTOMERS}`,
  );
  for (const sequence of rows) {
    const name = qualified(sequence);
    const { rows: at } = await source.query(`SELECT last_value, is_called FROM ${name}`);
    await target.query('SELECT setval(to_regclass($1), $2::int8, $3)', [name, at[0].last_value, at[0].is_called]);
  }
}

/** In the order in which they were made: one may be made of another. */
export async function readMaterializedViews(
  session: Session,
): Promise<{ schema: string; name: string; owner: string; populated: boolean }[]> {
  const { rows } = await session.query(
    `SELECT n.nspname AS schema, c.relname AS name, pg_get_userbyid(c.relowner) AS owner, c.relispopulated AS populated
       FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
      WHERE c.relkind = 'm' AND ${OF_CUSTOMERS} ORDER BY c.oid`,
  );
  return rows;
}
