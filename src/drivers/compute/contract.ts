import type { Duplex } from 'node:stream';
import type { ComputeUnits } from '../../domain/compute-size.ts';

/**
 * The whole compute contract on one screen. A compute is one running Postgres server. Every call says what must be true
 * afterwards and is safe to run twice; facts come back as observations, which the caller records.
 */

/** Names a compute, whether it runs or not: its driver's name, and the id of its spec. Kept in the store as JSON. */
export interface ComputeRef {
  readonly driver: string;
  readonly id: string;
}

/** Whom a standby streams from. */
export interface ComputePrimary {
  /** The id of its spec; it need not run, or be there at all. */
  readonly id: string;
  readonly user: string;
  /** Secret: reaches the server in a file that its user alone reads. */
  readonly password: string;
}

/** Everything a server needs, decided by the caller. Nothing in it is secret but the password for its primary. */
export interface ComputeSpec {
  /** The endpoint's id; names the compute. */
  readonly id: string;
  /** Which Postgres, as in `postgres/distributions.ts`: the root that holds `bin/postgres`. */
  readonly distribution: { readonly id: string; readonly root: string };
  readonly data_directory: string;
  /** uid and gid the server runs under; undefined where everything runs as one user. */
  readonly owner?: { readonly uid: number; readonly gid: number };
  /** Whole texts of the files that the server reads and cannot write. */
  readonly files: {
    readonly 'postgresql.conf': string;
    readonly 'pg_hba.conf': string;
    readonly 'pg_ident.conf': string;
  };
  readonly size: ComputeUnits;
  /** For a data directory that is a standby's; undefined: it goes by the log that it has. */
  readonly primary?: ComputePrimary;
}

export interface ComputeObservation {
  readonly state: 'running' | 'stopped';
  /** When the server that runs now was started (UTC). */
  readonly started_at?: Date;
  /** True when the last server did not end by itself or by a stop that we asked for. */
  readonly crashed?: boolean;
}

export interface ComputeCapabilities {
  /** Sizes are enforced (cgroups); otherwise they only decide the configuration. */
  readonly limits_enforced: boolean;
  /** Each owner is a user of its own; otherwise everything is one trust domain. */
  readonly isolated_users: boolean;
}

/** How to stop: `staged` asks for a fast shutdown and escalates; `immediate` gives up the shutdown checkpoint. */
export type StopMode = 'staged' | 'immediate';

/** A server that could not start: the last lines of its log, without secrets. */
export class ComputeStartError extends Error {
  readonly log: readonly string[];
  constructor(message: string, log: readonly string[]) {
    super(message);
    this.name = 'ComputeStartError';
    this.log = log;
  }
}

export interface ComputeDriver {
  readonly name: string;
  readonly capabilities: ComputeCapabilities;
  /** Runs and accepts connections. A server that runs already, started from the same spec or not, is adopted as it is. */
  ensureRunning(spec: ComputeSpec, signal?: AbortSignal): Promise<ComputeRef>;
  /** No process of it is left. */
  ensureStopped(ref: ComputeRef, mode: StopMode): Promise<void>;
  /**
   * A server that recovers as a standby has ended that at the end of its log, and accepts connections. One that does
   * already is left alone. Without a signal it waits a minute.
   */
  ensurePromoted(ref: ComputeRef, signal?: AbortSignal): Promise<void>;
  /** Limits are those of `size`; no restart. */
  ensureResized(ref: ComputeRef, size: ComputeUnits): Promise<void>;
  /** Files are written and the running server has read them (SIGHUP); what needs a restart waits for one. */
  ensureConfigured(ref: ComputeRef, files: ComputeSpec['files']): Promise<void>;
  /** Nothing of it is left: processes, sockets, configuration, logs, limits. */
  ensureRemoved(ref: ComputeRef): Promise<void>;
  observe(ref: ComputeRef): Promise<ComputeObservation>;
  /** Every compute that has a process now, known to the caller or not, so that strays can be stopped. */
  list(): Promise<ComputeRef[]>;
  /** A new byte stream to the server. Fails with ECONNREFUSED or ENOENT where none listens. */
  dial(ref: ComputeRef): Promise<Duplex>;
  /** The newest lines of the server's log, without secrets. */
  tailLog(ref: ComputeRef, lines: number): Promise<string[]>;
  /** Calls back soon after a compute that this process watches has ended. Returns the way to stop watching. */
  onExit(listener: (ref: ComputeRef) => void): () => void;
}
