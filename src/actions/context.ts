import type { Vault } from '../domain/credentials.ts';
import type { ConnectionsReader } from '../domain/endpoint-connections.ts';
import type { HistoryReader } from '../domain/history.ts';
import type { SendLetter } from '../domain/mail.ts';
import type { SchemaReader } from '../domain/schema.ts';
import type { Store } from '../store/connection.ts';

/** Facts of this installation that actions need; decided by `main` at start. */
export interface InstallationFacts {
  readonly region_id: string;
  /** Where people reach the API and the console in a browser: `https://coppice.example.com`, an origin. */
  readonly public_url: string;
  /** Host names are `<endpoint id>.<domain>`. */
  readonly domain: string;
  /** In every string and host when it is not 5432. */
  readonly pg_port: number;
  /** False where names below the default domain do not resolve: strings then name `localhost`. */
  readonly domain_resolves: boolean;
  readonly min_suspend_timeout_seconds: number;
  /** Of computes that were made for clients who look into the past. */
  readonly time_travel_timeout_seconds: number;
  /** Deleted projects can come back for so long; absent: they cannot. */
  readonly keep_deleted_projects_seconds?: number;
  /** The same of deleted branches. */
  readonly keep_deleted_branches_seconds?: number;
  /** Branches can be archived. */
  readonly object_storage: boolean;
  readonly default_pg_version: number;
  /** Postgres major version -> id of the distribution that new projects get. */
  readonly distributions: ReadonlyMap<number, string>;
  /** First uid of the range reserved for projects; undefined where everything runs as one user. */
  readonly uid_base?: number;
}

export interface ActionContext {
  /** Commits are durable. */
  readonly store: Store;
  readonly vault: Vault;
  readonly installation: InstallationFacts;
  readonly history: HistoryReader;
  /** Absent where there is no mail server. */
  readonly mail?: SendLetter;
  /** Absent where no computes can be reached. */
  readonly schemas?: SchemaReader;
  /** Absent where no gateway serves beside the API. */
  readonly connections?: ConnectionsReader;
}
