/**
 * The whole storage contract on one screen. A volume is one Postgres data directory. Every call says what must be true
 * afterwards and is safe to run twice. Callers ask a capability, never a driver's name.
 */

/** Opaque outside the driver that made it; kept in the store as JSON. */
export interface VolumeRef {
  readonly driver: string;
  readonly id: string;
}

export interface StorageCapabilities {
  /** A clone costs the same whatever the size. */
  readonly instant_clone: boolean;
  /** A clone of a volume that is being written is one moment of it; otherwise the writer must be stopped or in backup mode. */
  readonly atomic_clone: boolean;
  /** `measure` can tell what a volume shares with others. */
  readonly unshared_bytes: boolean;
}

/** Who may write into a volume: a compute's uid and gid; undefined where everything runs as one user. */
export interface VolumeOwner {
  readonly uid: number;
  readonly gid: number;
}

export interface CloneOptions {
  /** Owner of the copy; files keep their modes. */
  readonly owner?: VolumeOwner;
  /** Paths below the volume, relative, whose contents are left out: the directory is made, and is empty. */
  readonly empty_directories?: readonly string[];
  /** Files directly below the volume that are left out (`postmaster.pid`). */
  readonly omit_files?: readonly string[];
  /**
   * Runs on the unfinished copy's path before it is made durable, belongs to its owner and gets its name; a throw
   * discards the copy. Nobody else can enter the path meanwhile.
   */
  readonly prepare?: (path: string) => Promise<void>;
  readonly signal?: AbortSignal;
}

export interface VolumeSize {
  /** Sum of file sizes in bytes. */
  readonly logical_bytes: number;
  /** Bytes on disk that no other volume shares; undefined where the driver cannot tell. */
  readonly unshared_bytes?: number;
}

/** A directory or regular file of a volume; `path` is relative to it, parents come before what they hold. */
export interface VolumeEntry {
  readonly path: string;
  readonly kind: 'directory' | 'file';
  /** Permission bits. */
  readonly mode: number;
  /** Of a file's contents; 0 of a directory. */
  readonly bytes: number;
}

export interface PoolState {
  readonly path: string;
  readonly total_bytes: number;
  readonly free_bytes: number;
  /** Kept free for what runs already: below it branches, snapshots and starts are refused. */
  readonly reserve_bytes: number;
}

export interface StorageDriver {
  readonly name: string;
  readonly capabilities: StorageCapabilities;
  /** Makes an empty volume, lets `fill` write it, makes it durable. Nothing is left when `fill` throws. Existing: returned as it is. */
  ensureCreated(id: string, fill: (path: string) => Promise<void>, owner?: VolumeOwner): Promise<VolumeRef>;
  /**
   * Makes a copy-on-write copy, durable when this returns. Existing: returned as it is. Files that vanish meanwhile are left
   * out; a symbolic link or special file in the source is an error that names it.
   */
  ensureCloned(source: VolumeRef, id: string, options?: CloneOptions): Promise<VolumeRef>;
  /** Nothing of the volume remains, half-made copies included. Never follows a symbolic link. */
  ensureDeleted(id: string): Promise<void>;
  /** The finished volume of that id, or undefined. */
  find(id: string): Promise<VolumeRef | undefined>;
  /** Ids of all volumes, half-made ones included, so that strays can be found. */
  list(): Promise<string[]>;
  /** Where the data directory is on this machine. */
  path(volume: VolumeRef): string;
  measure(volume: VolumeRef): Promise<VolumeSize>;
  /** Everything in a volume that nobody writes, such as a snapshot. Links and special files are an error that names them. */
  entries(volume: VolumeRef): Promise<VolumeEntry[]>;
  /** So many bytes of a file, fewer only at its end. No link is followed, whatever the tenant has put into the path. */
  read(volume: VolumeRef, path: string, offset: number, bytes: number): Promise<Buffer>;
  pool(): Promise<PoolState>;
}
