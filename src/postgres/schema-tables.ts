import type { SchemaConstraint, SchemaTable } from '../domain/schema.ts';
import { SchemaUnreadable } from './schema-dump.ts';
import type { Session } from './session.ts';

interface TableRow {
  readonly schema: string;
  readonly name: string;
  readonly columns: SchemaTable['columns'];
  readonly constraints: (SchemaConstraint & {
    readonly referenced_table: SchemaConstraint['referenced_table'] | null;
  })[];
}

/** Tables of the customer's own: not those of the server, of extensions and of other sessions. */
const TABLES = `
  SELECT n.nspname AS schema, c.relname AS name, columns.list AS columns, coalesce(constraints.list, '[]') AS constraints
  FROM pg_class c
  JOIN pg_namespace n ON n.oid = c.relnamespace
  CROSS JOIN LATERAL (
    SELECT coalesce(json_agg(json_build_object('name', a.attname, 'type', format_type(a.atttypid, a.atttypmod),
             'nullable', NOT a.attnotnull, 'generated', a.attgenerated <> '') ORDER BY a.attnum), '[]') AS list
    FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
  ) columns
  LEFT JOIN LATERAL (
    SELECT json_agg(json_build_object(
             'type', CASE k.contype WHEN 'p' THEN 'primary_key' WHEN 'u' THEN 'unique' ELSE 'foreign_key' END,
             'name', k.conname,
             'columns', (SELECT json_agg(a.attname ORDER BY key.position)
                           FROM unnest(k.conkey) WITH ORDINALITY AS key (attnum, position)
                           JOIN pg_attribute a ON a.attrelid = k.conrelid AND a.attnum = key.attnum),
             'referenced_table', (SELECT json_build_object('schema', fn.nspname, 'table', f.relname, 'columns',
                                           (SELECT json_agg(a.attname ORDER BY key.position)
                                              FROM unnest(k.confkey) WITH ORDINALITY AS key (attnum, position)
                                              JOIN pg_attribute a ON a.attrelid = k.confrelid AND a.attnum = key.attnum))
                                    FROM pg_class f JOIN pg_namespace fn ON fn.oid = f.relnamespace
                                   WHERE f.oid = k.confrelid)
           ) ORDER BY array_position(ARRAY['p', 'u', 'f'], k.contype::text), k.conname) AS list
    FROM pg_constraint k WHERE k.conrelid = c.oid AND k.contype IN ('p', 'u', 'f')
  ) constraints ON true
  WHERE c.relkind IN ('r', 'p') AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'
    AND NOT EXISTS (SELECT FROM pg_depend d
                     WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype = 'e')
  ORDER BY n.nspname, c.relname
  LIMIT $1`;

/** The tables of the session's database, with columns and keys. Throws SchemaUnreadable when there are too many. */
export async function readSchemaTables(session: Session, { tables_max = 50_000 } = {}): Promise<SchemaTable[]> {
  const { rows } = await session.query<TableRow>(TABLES, [tables_max + 1]);
  if (rows.length > tables_max) throw new SchemaUnreadable(`it has more than ${tables_max} tables`);
  return rows.map(({ constraints, ...table }) => ({
    ...table,
    constraints: constraints.map(({ referenced_table, ...constraint }) =>
      referenced_table ? { ...constraint, referenced_table } : constraint,
    ),
  }));
}
