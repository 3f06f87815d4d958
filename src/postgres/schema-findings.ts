import type { SchemaFinding } from '../domain/schema.ts';
import type { Session } from './session.ts';

/** Tables of the customer's own, and what is wrong with them: the names are those of the table of lints. */
const FINDINGS = `
  WITH tables AS (
    SELECT c.oid, n.nspname AS schema, c.relname AS name, c.relrowsecurity, c.relispartition, c.relacl, n.nspacl
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE c.relkind IN ('r', 'p') AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'
      AND NOT EXISTS (SELECT FROM pg_depend d
                       WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype = 'e')
  ), anybody AS (
    SELECT 0::oid AS oid UNION ALL SELECT oid FROM pg_roles WHERE rolname IN ('anonymous', 'authenticated')
  )
  SELECT 'rls_disabled_in_public' AS lint, schema, name AS table, NULL AS constraint, NULL::json AS columns
  FROM tables
  WHERE NOT relrowsecurity
    AND EXISTS (SELECT FROM aclexplode(relacl) a JOIN anybody ON anybody.oid = a.grantee
                 WHERE a.privilege_type IN ('SELECT', 'INSERT', 'UPDATE', 'DELETE', 'TRUNCATE'))
    AND EXISTS (SELECT FROM aclexplode(nspacl) a JOIN anybody ON anybody.oid = a.grantee
                 WHERE a.privilege_type = 'USAGE')
  UNION ALL
  SELECT 'unindexed_foreign_keys', t.schema, t.name, k.conname,
         (SELECT json_agg(a.attname ORDER BY key.position)
            FROM unnest(k.conkey) WITH ORDINALITY AS key (attnum, position)
            JOIN pg_attribute a ON a.attrelid = k.conrelid AND a.attnum = key.attnum)
  FROM tables t JOIN pg_constraint k ON k.conrelid = t.oid AND k.contype = 'f' AND k.conparentid = 0
  WHERE NOT EXISTS (SELECT FROM pg_index i
                     WHERE i.indrelid = t.oid AND i.indisvalid AND i.indpred IS NULL
                       AND i.indnkeyatts >= cardinality(k.conkey)
                       AND (i.indkey::int2[])[0:cardinality(k.conkey) - 1] @> k.conkey)
  UNION ALL
  SELECT 'no_primary_key', t.schema, t.name, NULL, NULL
  FROM tables t
  WHERE NOT relispartition
    AND NOT EXISTS (SELECT FROM pg_constraint k WHERE k.conrelid = t.oid AND k.contype = 'p')
  ORDER BY 1, 2, 3, 4
  LIMIT $1`;

/** What the lints find in the session's database, as many as `findings_max`. */
export async function readSchemaFindings(session: Session, { findings_max = 1000 } = {}): Promise<SchemaFinding[]> {
  const { rows } = await session.query<SchemaFinding & { constraint: string | null; columns: string[] | null }>(
    FINDINGS,
    [findings_max],
  );
  return rows.map(({ lint, schema, table, constraint, columns }) =>
    constraint && columns ? { lint, schema, table, constraint, columns } : { lint, schema, table },
  );
}
