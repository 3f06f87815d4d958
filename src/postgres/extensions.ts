/**
 * The extensions a customer may create, as data. What is not here has no control file in our copy of a distribution,
 * so CREATE EXTENSION cannot find it. Why each is in or out: docs/decisions/2026-11-20-extension-allow-list.md.
 */

export interface AllowedExtension {
  readonly name: string;
  /**
   * `upstream`: the `trusted` flag stays as it was shipped. `reviewed`: we read its scripts for names that a customer
   * could shadow, found none that is executed, and make it trusted. `platform`: only our own sessions create it.
   */
  readonly trust: 'upstream' | 'reviewed' | 'platform';
  /** Majors it is allowed on; absent: all. */
  readonly majors?: readonly number[];
  /** Added to the end of its scripts, which run as the superuser in the database where it is created. */
  readonly grants?: string;
}

const upstream = (...names: string[]): AllowedExtension[] => names.map((name) => ({ name, trust: 'upstream' }));
const reviewed = (...names: string[]): AllowedExtension[] => names.map((name) => ({ name, trust: 'reviewed' }));

const ALLOWED_EXTENSIONS: readonly AllowedExtension[] = [
  // Shipped with Postgres and trusted there.
  ...upstream('btree_gin', 'btree_gist', 'citext', 'cube', 'dict_int', 'fuzzystrmatch', 'hstore', 'intarray', 'isn'),
  ...upstream('lo', 'ltree', 'pg_trgm', 'pgcrypto', 'plpgsql', 'seg', 'tablefunc', 'tcn', 'tsm_system_rows'),
  ...upstream('tsm_system_time', 'unaccent', 'uuid-ossp'),
  // Shipped with Postgres, made trusted by us.
  ...reviewed('autoinc', 'bloom', 'earthdistance', 'insert_username', 'intagg', 'moddatetime', 'pg_buffercache'),
  ...reviewed('pg_prewarm', 'pgrowlocks', 'pgstattuple', 'refint'),
  {
    name: 'pg_stat_statements',
    trust: 'reviewed',
    grants: 'GRANT EXECUTE ON FUNCTION pg_stat_statements_reset TO neon_superuser;',
  },
  {
    name: 'postgres_fdw',
    trust: 'reviewed',
    grants: 'GRANT USAGE ON FOREIGN DATA WRAPPER postgres_fdw TO neon_superuser;',
  },
  {
    name: 'dblink',
    trust: 'reviewed',
    // libpq 18 takes `sslkeylogfile` in a connection string: whoever may write one appends to any file of the server's.
    majors: [15, 16, 17],
    grants: 'GRANT USAGE ON FOREIGN DATA WRAPPER dblink_fdw TO neon_superuser;',
  },
  { name: 'amcheck', trust: 'platform' },
  // Third parties, found only where an installed server carries them.
  ...reviewed('vector'),
  ...upstream(
    'h3',
    'hll',
    'hypopg',
    'ip4r',
    'pg_uuidv7',
    'pgrouting',
    'pgtap',
    'postgis',
    'postgis_topology',
    'prefix',
  ),
  ...upstream('rum', 'semver', 'unit'),
];

/** The entry that allows `name` on a major version; undefined when customers cannot have it there. */
export function allowedExtension(name: string, major: number): AllowedExtension | undefined {
  const entry = ALLOWED_EXTENSIONS.find((extension) => extension.name === name);
  return entry && (entry.majors?.includes(major) ?? true) ? entry : undefined;
}

/** The extension a file of `share/extension` belongs to: `vector.control`, `vector--0.8.0.sql`, `vector--0.8.0.control`. */
export const extensionOfFile = (file: string): string => file.replace(/(--.*)?\.(control|sql)$/, '');

/** Our copy of a control file: the flags `trusted` and `superuser` follow the allow-list. */
export function rewriteControlFile(text: string, { trust }: AllowedExtension): string {
  if (trust === 'upstream') return text;
  const kept = text.split('\n').filter((line) => !/^\s*trusted\s*=/.test(line));
  return [...kept, trust === 'reviewed' ? 'trusted = true' : 'trusted = false', ''].join('\n');
}

/**
 * Our copy of a script. Updates get the grants too, since an update may drop and make the object again. Names in them
 * resolve to the extension's own schema first, as everything in a script does.
 */
export const rewriteScript = (text: string, { grants }: AllowedExtension): string =>
  grants ? `${text}\n${grants}\n` : text;
