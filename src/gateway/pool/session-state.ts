/**
 * What a client may have left in the session of a server connection, and what takes it away again.
 * See docs/decisions/2026-11-22-transaction-pooling.md.
 */

export const TAINT = {
  none: 0,
  /** Settings, temporary tables, advisory locks, cursors, values of sequences, notifications. */
  soft: 1,
  /** Prepared statements of its own, too. */
  hard: 2,
  /** Something that only the end of the session takes away. */
  lasting: 3,
} as const;

export type Taint = (typeof TAINT)[keyof typeof TAINT];

/** DISCARD ALL without what costs the most: dropping prepared statements and plans, which are the pool's own. */
export const SOFT_CLEANING =
  'RESET SESSION AUTHORIZATION;RESET ALL;CLOSE ALL;UNLISTEN *;SELECT pg_catalog.pg_advisory_unlock_all();DISCARD TEMP;DISCARD SEQUENCES';
export const HARD_CLEANING = 'DISCARD ALL';

const LASTING_WORDS = 'dblink|setseed|pg_backup_start|replication_slot|replication_origin';
const HARD_WORDS = '\\m(execute|prepare|deallocate|discard)\\M';
const SOFT_WORDS =
  'set_config|advisory|\\mtemp|\\mlisten|\\mhold\\M|nextval|setval|\\m(insert|merge|copy)\\M|(^|;|\\m(begin|then|else|loop)\\M)\\s*(set|reset|load)\\s';
/** Built-in functions whose calls, stored in a view or a policy, would leave something. */
const STORED_CALLS = "'set_config|advisory_lock|advisory_unlock|nextval|setval|setseed|query_to_xml|^lo_'";

/**
 * Asks a database whether code of its own, which a harmless text may run without naming it, could leave something in a
 * session: one row with a Taint. Reads what everybody may read. Code in C is trusted to leave nothing.
 */
export const CODE_QUERY = `
SELECT greatest(
  coalesce((SELECT max(CASE WHEN source ~* '${LASTING_WORDS}' THEN 3 WHEN source ~* '${HARD_WORDS}' THEN 2
      WHEN source ~* '${SOFT_WORDS}' THEN 1 ELSE 0 END)
    FROM (SELECT coalesce(pg_catalog.pg_get_function_sqlbody(p.oid), p.prosrc) AS source
      FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_language l ON l.oid = p.prolang
      WHERE p.oid >= 16384 AND l.lanname NOT IN ('c', 'internal')) AS functions), 0),
  coalesce((SELECT 1 FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_language l ON l.oid = p.prolang
    WHERE p.oid >= 16384 AND l.lanname NOT IN ('c', 'internal', 'sql', 'plpgsql') LIMIT 1), 0),
  (SELECT max(CASE WHEN stored ~ (SELECT ':funcid (' || pg_catalog.string_agg(oid::text, '|') || ') '
      FROM pg_catalog.pg_proc WHERE oid < 16384 AND proname ~ ${STORED_CALLS}) THEN 1 ELSE 0 END)
    FROM (SELECT ''::text AS stored
      UNION ALL SELECT ev_action::text FROM pg_catalog.pg_rewrite WHERE oid >= 16384
      UNION ALL SELECT polqual::text FROM pg_catalog.pg_policy
      UNION ALL SELECT conbin::text FROM pg_catalog.pg_constraint WHERE oid >= 16384 AND contype = 'c') AS expressions))`;
