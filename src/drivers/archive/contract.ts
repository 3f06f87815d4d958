/**
 * The whole archive contract on one screen. An archive holds the write-ahead log of one timeline, segment by segment,
 * under the names that Postgres gives them, and the history files of its Postgres timelines. Every call says what must be
 * true afterwards and is safe to run twice. What a segment holds is the caller's to know.
 */

/** Who runs the server that archives; undefined where everything runs as one user. */
export interface ArchiveWriter {
  readonly uid: number;
  readonly gid: number;
}

/** A file that is in the archive for good: its name is durable, and its bytes are those of its checksum. */
export interface ArchivedFile {
  /** `000000010000000000000003`, or `00000002.history` */
  readonly name: string;
  readonly bytes: number;
  /** In hexadecimal. */
  readonly sha256: string;
  /** When it was taken in (UTC). */
  readonly archived_at: Date;
  /** Taken by `takeCopy`: its server may still have been going to write on it, and one that is finished replaces it. */
  readonly copy: boolean;
}

/**
 * Says why a file must not be taken in; it is then set aside, and the reason is kept beside it. What it throws has nothing
 * to do with the file, and is passed on.
 */
export type CheckSegment = (name: string, bytes: Buffer) => string | undefined | Promise<string | undefined>;

export interface TakenIn {
  readonly taken: readonly ArchivedFile[];
  /** What `check` refused, with its reason. */
  readonly refused: readonly { readonly name: string; readonly reason: string }[];
}

export interface ArchiveDriver {
  readonly name: string;
  /** The directories of a timeline are there; its writer can put files into the incoming one, and reach nothing else. */
  ensureReady(timelineId: string, writer?: ArchiveWriter): Promise<void>;
  /** The text of `archive_command` for the timeline's server. Needs nothing of ours to run; safe to run twice. */
  archiveCommand(timelineId: string): string;
  /** Takes in what the server has put into the incoming directory since the last time. */
  takeIn(timelineId: string, check: CheckSegment): Promise<TakenIn>;
  /**
   * Of a server that has ended: it cannot change these files any more, which it still had when they were taken in. Those that
   * are not there are left out.
   */
  seal(timelineId: string, names: readonly string[]): Promise<void>;
  /** Takes in a file that lies elsewhere, such as a stopped server's last segment; replaces one of the same name. */
  takeCopy(timelineId: string, name: string, path: string): Promise<ArchivedFile>;
  /**
   * Puts a copy of a file in the place of one that was taken in and is missing or damaged now, if it holds the bytes that were
   * taken in. False when it does not, or when nothing was taken in under that name; true when nothing was wrong. A file that
   * is not at `path` throws ENOENT.
   */
  mend(timelineId: string, name: string, path: string): Promise<boolean>;
  /** Names of files that were taken in, were not removed, and are not there. */
  lost(timelineId: string): Promise<string[]>;
  /** Everything that is there, by name. */
  list(timelineId: string): Promise<ArchivedFile[]>;
  /** The bytes of a file; checked against its checksum. Throws ArchiveError when they differ or it is missing. */
  read(timelineId: string, name: string): Promise<Buffer>;
  /** Puts a copy, which shares blocks where it can, into a directory under its own name; checked, plain and writable. */
  copyTo(timelineId: string, name: string, directory: string): Promise<void>;
  /** None of these files is there any more. */
  ensureRemoved(timelineId: string, names: readonly string[]): Promise<void>;
  /** Nothing of the timeline is left. */
  ensureDeleted(timelineId: string): Promise<void>;
  /** Timelines of which something is there, so that strays can be found. */
  timelines(): Promise<string[]>;
}

/** A file of an archive is missing or damaged: its name, and what is wrong with it. */
export class ArchiveError extends Error {
  override name = 'ArchiveError';
  readonly kind: 'missing' | 'checksum';
  readonly file: string;
  constructor(kind: ArchiveError['kind'], file: string, message: string) {
    super(message);
    this.kind = kind;
    this.file = file;
  }
}
