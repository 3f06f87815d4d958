import type { ArchiveDriver } from '../drivers/archive/contract.ts';
import type { ComputeDriver } from '../drivers/compute/contract.ts';
import type { ObjectStore } from '../drivers/objects/contract.ts';
import type { StorageDriver, VolumeRef } from '../drivers/storage/contract.ts';
import type { Store } from '../store/connection.ts';
import type { EndedOperations } from '../watch/ended-operations.ts';
import type { Log } from '../watch/log-fields.ts';
import type { ShippedArchive } from './shipping/shipped-archive.ts';

/** A Postgres that computes can run: where it is, and its template volume. */
export interface EngineDistribution {
  readonly id: string;
  readonly root: string;
  readonly major: number;
  /** It carries an extension that runs jobs by itself (pg_cron). */
  readonly has_scheduler: boolean;
}

export interface EngineContext {
  /** Durable commits: calls that the engine starts by itself, and what must not be forgotten before somebody writes or a server runs. */
  readonly intent: Store;
  /** Commits that may be lost with the machine: observations, which are made again. */
  readonly store: Store;
  readonly compute: ComputeDriver;
  readonly storage: StorageDriver;
  /** The log of each timeline. */
  readonly archive: ArchiveDriver;
  /** What outlives this machine's disk; undefined where none was given. */
  readonly objects: ObjectStore | undefined;
  /**
   * `archive` itself where there is object storage: what has been archived for `after_ms` is sent there, and what for
   * `local_ms` goes from this disk then; undefined: nothing does.
   */
  readonly shipping:
    | { readonly archive: ShippedArchive; readonly after_ms: number; readonly local_ms: number | undefined }
    | undefined;
  /** Branches untouched for `after_ms`, and older than `min_age_ms`, are archived; undefined: none are. */
  readonly archive_branches: { readonly after_ms: number | undefined; readonly min_age_ms: number };
  /** Projects untouched for so long are moved to object storage; undefined: none are. */
  readonly detach_projects_after_ms: number | undefined;
  /** Older entries of the audit log go; undefined: none does. */
  readonly audit_log_retention_ms: number | undefined;
  /** Operations that ended longer ago go; undefined: none does. */
  readonly operations_retention_ms: number | undefined;
  /** A deleted project is purged after so long. */
  readonly keep_deleted_projects_ms: number;
  /** The same of a deleted branch; 0: at once. */
  readonly keep_deleted_branches_ms: number;
  /** How often everything in the archives is compared with its checksums. */
  readonly archive_check_interval_ms: number;
  /** When a running server is due for a snapshot: after so much log, or after so long when it wrote at all. */
  readonly snapshots: { readonly wal_bytes: number; readonly interval_ms: number };
  /** A running server is copied without a checkpoint where it made one not long ago. */
  readonly branch_without_checkpoint: boolean;
  /** More log than this is replayed by the server that is to serve what it is replayed for. */
  readonly serve_replay_bytes: number;
  readonly distributions: ReadonlyMap<string, EngineDistribution>;
  /** The volume that new projects of a distribution are cloned from; made when first asked for. */
  readonly template: (distributionId: string) => Promise<VolumeRef>;
  /** Passwords of read replicas are reckoned from it. */
  readonly replication_key: Buffer;
  /** Secrets of masked branches are reckoned from it. */
  readonly masking_key: Buffer;
  /** What the secrets of webhooks are reckoned from, and whether receivers may be on this machine. */
  readonly webhooks: { readonly key: Buffer; readonly loopback: boolean };
  /** The user that Coppice runs as: computes let it in as `cloud_admin`. */
  readonly os_user: string;
  /** Computes of the same driver that are none of the engine's: the server of our own database. */
  readonly own_computes: ReadonlySet<string>;
  /** Resolves when whoever is in this process has heard of every change that was committed before. */
  readonly caughtUp: () => Promise<void>;
  readonly ended_operations: EndedOperations;
  readonly logger: Log;
}
