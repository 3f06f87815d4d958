/**
 * What `advisors` looks for in a database. A row says what is wrong, how bad it is, and what to do; where it was found is a
 * finding (schema.ts). Names are those that other advisors of Postgres use for the same.
 */

export type LintLevel = 'ERROR' | 'WARN' | 'INFO';
export type LintCategory = 'SECURITY' | 'PERFORMANCE';

export interface Lint {
  readonly title: string;
  readonly level: LintLevel;
  readonly category: LintCategory;
  /** EXTERNAL: whoever may connect without being somebody in particular is concerned. */
  readonly facing: 'EXTERNAL' | 'INTERNAL';
  readonly description: string;
  /** About one finding; `{table}`, `{constraint}` and `{columns}` are filled in. */
  readonly detail: string;
  /** Where it is written what to do. */
  readonly remediation: string;
}

const MANUAL = 'https://www.postgresql.org/docs/current';

export const LINTS = {
  rls_disabled_in_public: {
    title: 'Row-level security is off where everybody may come',
    level: 'ERROR',
    category: 'SECURITY',
    facing: 'EXTERNAL',
    description:
      'Everybody, or every holder of a token, may read or change all rows of a table: it is granted to PUBLIC, anonymous or authenticated, and no policy is asked.',
    detail: 'Table {table} is granted to everybody, and row-level security is not enabled.',
    remediation: `${MANUAL}/ddl-rowsecurity.html`,
  },
  unindexed_foreign_keys: {
    title: 'Foreign key without an index',
    level: 'INFO',
    category: 'PERFORMANCE',
    facing: 'INTERNAL',
    description:
      'No index begins with the columns of a foreign key, so that deleting or changing a referenced row reads the whole table.',
    detail: 'Table {table} has the foreign key {constraint} on ({columns}), which no index begins with.',
    remediation: `${MANUAL}/ddl-constraints.html#DDL-CONSTRAINTS-FK`,
  },
  no_primary_key: {
    title: 'Table without a primary key',
    level: 'INFO',
    category: 'PERFORMANCE',
    facing: 'INTERNAL',
    description: 'Rows of the table cannot be told apart, which logical replication and many tools need.',
    detail: 'Table {table} has no primary key.',
    remediation: `${MANUAL}/ddl-constraints.html#DDL-CONSTRAINTS-PRIMARY-KEYS`,
  },
} as const satisfies Record<string, Lint>;

export type LintName = keyof typeof LINTS;
