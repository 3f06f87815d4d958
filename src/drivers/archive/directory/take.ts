import { createHash } from 'node:crypto';
import { constants } from 'node:fs';
import { copyFile, type FileHandle, link, lstat, open, rename, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import type { ArchiveWriter } from '../contract.ts';
import { appendSums, type SumsEntry } from './sums.ts';

/** Of 1 MB where we made the server; others may have up to this. */
const FILE_BYTES_MAX = 64 * 1024 * 1024;
/** Ours, and readable to the server's group: it may still have to read a segment that it shares with us. */
const MODE = 0o440;
/**
 * While the server still has the segment in its own directory. At the end of a checkpoint it opens the one after the checkpoint's
 * record for writing, to have it there in time (PreallocXlogFiles in Postgres's xlog.c), and by then it may long be finished and
 * ours: the checkpoint would fail.
 */
const SHARED_MODE = 0o660;
/** Of a file that is being taken in: the one in the incoming directory, and the one in its group. */
const OUR_NAMES = 2;
/** What the machine could not do, rather than what its writer made of a file. */
const OF_THE_MACHINE = new Set(['ENOSPC', 'EDQUOT', 'EIO', 'EROFS', 'EMFILE', 'ENFILE', 'ENOMEM', 'EINTR']);

/** A file that lies in a directory where a customer can put anything, and that is not taken. */
export class RefusedFile extends Error {
  /** Whether somebody may want to look into it. */
  readonly keep: boolean;
  constructor(reason: string, { keep = false }: { keep?: boolean } = {}) {
    super(reason);
    this.keep = keep;
  }
}

/** Whoever knows what a file should be could not look at it. */
class CheckFailed extends Error {}

export const sha256Of = (bytes: Buffer): string => createHash('sha256').update(bytes).digest('hex');

const codeOf = (error: unknown): string | undefined => (error as NodeJS.ErrnoException).code;

/** Opens a plain file without following a link or waiting for a pipe. */
async function openPlain(path: string): Promise<FileHandle> {
  const handle = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK).catch((error) => {
    throw codeOf(error) === 'ELOOP' ? new RefusedFile('it is a symbolic link') : error;
  });
  if ((await handle.stat()).isFile()) return handle;
  await handle.close();
  throw new RefusedFile('it is not a plain file');
}

/** Reads a file that its writer may still be changing: the bytes that were there, of a size that is bounded. */
async function readBounded(handle: FileHandle): Promise<Buffer> {
  const { size } = await handle.stat();
  if (size > FILE_BYTES_MAX) throw new RefusedFile(`it has ${size} bytes, more than a segment may have`);
  const bytes = Buffer.alloc(size);
  for (let filled = 0; filled < size; ) {
    const { bytesRead } = await handle.read(bytes, filled, size - filled, filled);
    if (bytesRead === 0) throw new RefusedFile('it became shorter while it was read');
    filled += bytesRead;
  }
  return bytes;
}

export interface FileToTake {
  readonly incoming: string;
  readonly group: string;
  readonly name: string;
  /** Who may have put it there; undefined where everything runs as one user. */
  readonly writer: ArchiveWriter | undefined;
  /** What is noted of a file of that name. */
  readonly known: SumsEntry | undefined;
  readonly check: (bytes: Buffer) => Promise<string | undefined>;
}

/**
 * Makes a file of the incoming directory one of the group's, which is ours from then on; it stays in the incoming
 * directory until the caller has noted it. One that replaces a copy is noted here, first. Returns undefined when it is there
 * no more. Throws RefusedFile for what its writer cannot have meant; other errors are those of the machine, and pass.
 */
export async function takeFile(file: FileToTake): Promise<SumsEntry | undefined> {
  try {
    return await take(file);
  } catch (error) {
    if (error instanceof CheckFailed) throw error.cause;
    const code = codeOf(error);
    if (code === 'ENOENT') return undefined;
    // A socket, a file with too many links, a name that became a directory: whatever it is, its writer made it.
    if (code !== undefined && !OF_THE_MACHINE.has(code)) throw new RefusedFile((error as Error).message);
    throw error;
  }
}

async function take({ incoming, group, name, writer, known, check }: FileToTake): Promise<SumsEntry> {
  const from = join(incoming, name);
  const to = join(group, name);
  const handle = await openPlain(from);
  try {
    const { uid, ino, dev } = await handle.stat();
    const isThis = async (path: string) => {
      const there = await lstat(path).catch(() => undefined);
      return there?.ino === ino && there.dev === dev;
    };
    // An earlier attempt was ended after this.
    const taken = await isThis(to);
    // A hard link to a file of somebody else's, which must not change hands.
    if (!taken && writer && uid !== writer.uid) throw new RefusedFile(`it belongs to user ${uid}`);
    const bytes = await readBounded(handle);
    const sha256 = sha256Of(bytes);
    if (known && !known.copy && known.sha256 !== sha256) {
      throw new RefusedFile('another file of that name is in the archive', { keep: true });
    }
    const problem = await check(bytes).catch((error) => {
      throw new CheckFailed('', { cause: error });
    });
    if (problem !== undefined) throw new RefusedFile(problem, { keep: true });
    const entry = { name, bytes: bytes.length, sha256, archived_at: new Date(), copy: false };
    if (!taken) {
      // The name may have come to mean another file since it was opened; ours cannot.
      const beside = `${to}.new`;
      await rm(beside, { force: true });
      await link(from, beside);
      if (!(await isThis(beside))) throw new RefusedFile('it was exchanged while it was read');
      // Whoever reads it at this moment, in whatever process, finds a line for either file.
      if (known?.copy) await appendSums(group, [entry]);
      await rename(beside, to);
    }
    const { nlink } = await handle.stat();
    if (writer) await handle.chown(0, writer.gid);
    await handle.chmod(nlink > OUR_NAMES ? SHARED_MODE : MODE);
    await handle.sync();
    return entry;
  } finally {
    await handle.close();
  }
}

/** Nobody else can change a file of ours any more. Nothing happens when it is not there. */
export async function seal(path: string): Promise<void> {
  try {
    await using handle = await openPlain(path);
    await handle.chmod(MODE);
  } catch (error) {
    if (codeOf(error) !== 'ENOENT') throw error;
  }
}

/** A copy that lies in the group and has not got its name yet. */
export interface CopyToTake {
  readonly entry: SumsEntry;
  /** Gives it its name, in the place of what had it. */
  place(): Promise<void>;
}

/** Copies a plain file into the group. The caller notes it, then lets it have its name. */
export async function copyBeside(
  path: string,
  { group, name, writer }: Pick<FileToTake, 'group' | 'name' | 'writer'>,
): Promise<CopyToTake> {
  const source = await openPlain(path);
  const beside = join(group, `${name}.new`);
  try {
    const bytes = await readBounded(source);
    await rm(beside, { force: true });
    const copy = await open(beside, 'wx', 0o600);
    try {
      await copy.writeFile(bytes);
      if (writer) await copy.chown(0, writer.gid);
      await copy.chmod(MODE);
      await copy.sync();
    } finally {
      await copy.close();
    }
    const entry = { name, bytes: bytes.length, sha256: sha256Of(bytes), archived_at: new Date(), copy: true };
    return { entry, place: () => rename(beside, join(group, name)) };
  } finally {
    await source.close();
  }
}

/** The bytes of a file of ours, or nothing when it is not as large as it was. */
export async function readOwn(path: string, entry: SumsEntry): Promise<Buffer | undefined> {
  const handle = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  try {
    // Whoever wrote it may hold it open still and make it longer than memory.
    const { size } = await handle.stat();
    return size === entry.bytes ? await readBounded(handle) : undefined;
  } finally {
    await handle.close();
  }
}

/**
 * Puts a copy of one of our files, which shares its blocks where the file system can, under a new name in a directory
 * that somebody else may be able to change. It belongs to whom the directory belongs to.
 */
export async function giveCopy(from: string, bytes: Buffer, directory: string, name: string): Promise<void> {
  const to = join(directory, name);
  const shared = await copyFile(from, to, constants.COPYFILE_EXCL | constants.COPYFILE_FICLONE_FORCE).then(
    () => true,
    (error) => {
      if (codeOf(error) === 'EEXIST') throw error;
      return false;
    },
  );
  if (!shared) await rm(to, { force: true });
  const { O_RDONLY, O_WRONLY, O_CREAT, O_EXCL, O_NOFOLLOW } = constants;
  const handle = await open(to, shared ? O_RDONLY | O_NOFOLLOW : O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0o600);
  try {
    if (!shared) await handle.writeFile(bytes);
    const { nlink, uid } = await handle.stat();
    if (nlink !== 1 || uid !== process.getuid?.()) throw new Error(`${to} was exchanged while it was made`);
    await handle.chmod(0o600);
    if (uid === 0) {
      const owner = await stat(directory);
      await handle.chown(owner.uid, owner.gid);
    }
  } finally {
    await handle.close();
  }
}
