/**
 * The whole contract of object storage on one screen: named blobs, far away or in another directory, that outlive this
 * machine's disk. Every call says what must be true afterwards and is safe to run twice. Retries of what may pass
 * by itself (a slow or busy store, a broken connection) are the driver's, and are bounded; what it throws is an ObjectError.
 */

export interface ObjectInfo {
  readonly key: string;
  readonly bytes: number;
  /** When it was put there (UTC), by the store's clock. */
  readonly stored_at: Date;
}

export interface ObjectCall {
  readonly signal?: AbortSignal;
}

export interface ObjectStore {
  readonly name: string;
  /** For people, without secrets: `s3://bucket/prefix`. */
  readonly place: string;
  /** Throws when the place cannot be reached, written to, or does not exist; says what to do. Leaves nothing there. */
  check(call?: ObjectCall): Promise<void>;
  /**
   * The object holds exactly these bytes, durably: the store itself has confirmed their checksum before this returns.
   * One of the same key is replaced in one moment.
   */
  put(key: string, bytes: Buffer, call?: ObjectCall): Promise<void>;
  /** The same for what is larger than memory. What it throws leaves no object, and none half written. */
  putStream(key: string, source: AsyncIterable<Buffer>, call?: ObjectCall): Promise<ObjectInfo>;
  /**
   * Throws `missing`, or `damaged` when what came is not what the store promised or not of its checksum. A connection that
   * breaks again and again is `unreachable`.
   */
  get(key: string, call?: ObjectCall): Promise<Buffer>;
  /** The same, in pieces. The bytes are right only when it ends without an error. */
  getStream(key: string, call?: ObjectCall): AsyncIterable<Buffer>;
  find(key: string, call?: ObjectCall): Promise<ObjectInfo | undefined>;
  /** Objects whose keys begin with `prefix`, by key. */
  list(prefix: string, call?: ObjectCall): AsyncIterable<ObjectInfo>;
  /** None of these is there any more. */
  ensureRemoved(keys: readonly string[], call?: ObjectCall): Promise<void>;
}

/**
 * `missing`: no such object. `damaged`: what came back is not what was stored. `refused`: credentials, permissions, no such
 * bucket; trying again does not help. `unreachable`: down, slow or busy for longer than the driver waits; trying again later may.
 */
export type ObjectErrorKind = 'missing' | 'damaged' | 'refused' | 'unreachable';

export class ObjectError extends Error {
  override name = 'ObjectError';
  readonly kind: ObjectErrorKind;
  readonly key: string | undefined;
  constructor(kind: ObjectErrorKind, key: string | undefined, message: string, options?: ErrorOptions) {
    super(message, options);
    this.kind = kind;
    this.key = key;
  }
}

const KEY = /^[A-Za-z0-9_=-][A-Za-z0-9_=.-]*(\/[A-Za-z0-9_=-][A-Za-z0-9_=.-]*)*$/;
const KEY_LENGTH_MAX = 512;

/** Keys are paths of plain names, so that each driver can hold them as they are. Throws on anything else. */
export function assertKey(key: string): void {
  if (!KEY.test(key) || key.length > KEY_LENGTH_MAX)
    throw new Error(`${JSON.stringify(key)} is not the key of an object`);
}
