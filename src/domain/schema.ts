import type { BranchId, EndpointId, ProjectId } from './ids.ts';
import type { LintName } from './lints.ts';

/** One database of a branch, as its compute serves it. */
export interface SchemaSource {
  readonly project_id: ProjectId;
  readonly branch_id: BranchId;
  readonly endpoint_id: EndpointId;
  readonly database: string;
}

/** A table as the API's JSON format shows it. */
export interface SchemaTable {
  readonly schema: string;
  readonly name: string;
  readonly columns: readonly {
    readonly name: string;
    /** As in SQL: `character varying(20)`. */
    readonly type: string;
    readonly nullable: boolean;
    /** Computed from other columns. */
    readonly generated: boolean;
  }[];
  readonly constraints: readonly SchemaConstraint[];
}

export interface SchemaConstraint {
  readonly type: 'primary_key' | 'unique' | 'foreign_key';
  readonly name: string;
  readonly columns: readonly string[];
  /** Of foreign keys. */
  readonly referenced_table?: { readonly schema: string; readonly table: string; readonly columns: readonly string[] };
}

/** Where a lint found something. */
export interface SchemaFinding {
  readonly lint: LintName;
  readonly schema: string;
  readonly table: string;
  /** Of foreign keys, with its columns. */
  readonly constraint?: string;
  readonly columns?: readonly string[];
}

/**
 * Reads schemas from computes, which are woken for it. Handed in by `main`, since whoever asks knows neither computes nor
 * the gateway. One reading of a project at a time. Throws errors for callers: `schema_unreadable`, `schema_busy`,
 * `not_found` when the server has no such database, `unavailable` when the compute cannot be woken.
 */
export interface SchemaReader {
  /** What pg_dump writes, without data. */
  sql(source: SchemaSource): Promise<string>;
  tables(source: SchemaSource): Promise<readonly SchemaTable[]>;
  /** What the lints find; the first thousand. */
  findings(source: SchemaSource): Promise<readonly SchemaFinding[]>;
  /** What of a schema is not as in the one that it is compared with, as a unified diff; empty when nothing is. */
  diff(compared: { readonly database: string; readonly base: string; readonly schema: string }): Promise<string>;
}
