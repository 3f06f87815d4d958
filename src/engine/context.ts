import type { ComputeDriver } from '../drivers/compute/contract.ts';
import type { StorageDriver, VolumeRef } from '../drivers/storage/contract.ts';
import type { Store } from '../store/connection.ts';

/** The part of a logger that the engine uses. */
export interface EngineLogger {
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  error(fields: object, message: string): void;
}

/** A Postgres that computes can run: where it is, and its template volume. */
export interface EngineDistribution {
  readonly id: string;
  readonly root: string;
  readonly major: number;
}

export interface EngineContext {
  /** Durable commits: calls that the engine starts by itself. */
  readonly intent: Store;
  /** Commits that may be lost with the machine: observations, which are made again. */
  readonly store: Store;
  readonly compute: ComputeDriver;
  readonly storage: StorageDriver;
  readonly distributions: ReadonlyMap<string, EngineDistribution>;
  /** The volume that new projects of a distribution are cloned from; made when first asked for. */
  readonly template: (distributionId: string) => Promise<VolumeRef>;
  /** The user that Coppice runs as: computes let it in as `cloud_admin`. */
  readonly os_user: string;
  /** Where finished WAL and other files of a compute may be kept outside its data directory. */
  readonly run_as_users: boolean;
  readonly logger: EngineLogger;
}
