/** Where a client connects to: one endpoint, by its direct or by its pooled host. */
export interface Place {
  readonly host: 'direct' | 'pooled';
  /** The connection string as the API gives it. */
  readonly uri: string;
  /** Certificate of the authority that vouches for the endpoint's host, in PEM. */
  readonly ca: string;
  /** A file that holds `ca`. */
  readonly ca_file: string;
  readonly api_port: number;
  /** A directory for files, empty at first. */
  readonly directory: string;
}

/** An unmodified client, and what people do with it; each case makes the tables that it needs. */
export interface MatrixClient {
  /** As in the table of docs/compatibility.md. */
  readonly name: string;
  readonly version: string;
  /** Why it cannot be tried on this machine; undefined where it can. */
  readonly missing?: string;
  /** Hosts that it makes sense for. */
  readonly hosts: readonly Place['host'][];
  /** For the table: what is worth knowing. */
  readonly notes: string;
  readonly cases: Readonly<Record<string, (place: Place) => Promise<void>>>;
}

/** Both hosts, for clients that open connections. */
export const BOTH_HOSTS = ['direct', 'pooled'] as const;

/** The name of a table that no other client and no other host uses. */
export function tableName(client: string, { host }: Place): string {
  return `${client}_${host}`;
}
