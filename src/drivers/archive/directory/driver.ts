import { chmod, chown, lstat, mkdir, opendir, readdir, rename, rm, stat, unlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import {
  type ArchiveDriver,
  type ArchivedFile,
  ArchiveError,
  type ArchiveWriter,
  type CheckSegment,
  type TakenIn,
} from '../contract.ts';
import { archiveCommand } from './archive-command.ts';
import { type ArchivePaths, archivePaths, groupOf, isArchivable, isTimeline, isUnfinished } from './layout.ts';
import { removeTree } from './remove-tree.ts';
import { appendSums, dropSums, readAllSums, readSums, type SumsEntry, syncDirectory } from './sums.ts';
import { copyBeside, giveCopy, RefusedFile, readOwn, seal, sha256Of, takeFile } from './take.ts';

/** So many files are taken in at a time; the rest waits for the next call. */
const TAKE_MAX = 1_000;
const NAMES_MAX = 10_000;
/** Files that are kept because something is wrong with them, each with its reason. */
const REFUSED_MAX = 64;

/** An archive on the same file system as the volumes, so that a segment is taken in without copying it. */
export function createDirectoryArchive({ root }: { readonly root: string }): ArchiveDriver {
  return new DirectoryArchive(root);
}

class DirectoryArchive implements ArchiveDriver {
  readonly name = 'directory';
  readonly #root: string;
  /** What changes a timeline's lists happens one after the other. */
  readonly #turns = new Map<string, Promise<unknown>>();

  constructor(root: string) {
    this.#root = root;
  }

  async ensureReady(timelineId: string, writer?: ArchiveWriter): Promise<void> {
    const { timeline, incoming, log, refused } = archivePaths(this.#root, timelineId);
    const there = await stat(incoming).catch(ignoreAbsent);
    // It is made last.
    if (there && (!writer || (there.uid === writer.uid && there.gid === writer.gid))) return;
    // Passable, since the server must reach its own directory below.
    for (const path of [this.#root, timeline]) {
      await mkdir(path, { recursive: true, mode: 0o711 });
      await chmod(path, 0o711);
    }
    for (const path of [log, refused]) await mkdir(path, { recursive: true, mode: 0o700 });
    await mkdir(incoming, { recursive: true, mode: 0o700 });
    if (writer) await chown(incoming, writer.uid, writer.gid);
    await syncDirectory(timeline);
    await syncDirectory(this.#root);
  }

  archiveCommand(timelineId: string): string {
    return archiveCommand(archivePaths(this.#root, timelineId).incoming);
  }

  takeIn(timelineId: string, check: CheckSegment): Promise<TakenIn> {
    return this.#inTurn(timelineId, async () => {
      const paths = archivePaths(this.#root, timelineId);
      const { files, strange } = await listIncoming(paths.incoming);
      for (const name of strange) await removeTree(join(paths.incoming, name));
      const taken: ArchivedFile[] = [];
      const refused: { name: string; reason: string }[] = [];
      if (files.length === 0) return { taken, refused };
      const writer = await writerOf(paths.incoming);
      for (const [group, names] of byGroup(files)) {
        const directory = join(paths.log, group);
        await mkdir(directory, { recursive: true, mode: 0o700 });
        const known = await readSums(directory);
        const entries: SumsEntry[] = [];
        for (const name of names) {
          const file = { incoming: paths.incoming, group: directory, name, writer, known: known.get(name) };
          try {
            const entry = await takeFile({ ...file, check: async (bytes) => check(name, bytes) });
            if (entry) entries.push(entry);
          } catch (error) {
            if (!(error instanceof RefusedFile)) throw error;
            refused.push({ name, reason: error.message });
            await setAside(paths, name, error);
          }
        }
        await appendSums(directory, entries);
        await syncDirectory(paths.log);
        // Whatever has come to be there instead is seen next time.
        for (const { name } of entries) await unlink(join(paths.incoming, name)).catch(() => undefined);
        taken.push(...entries);
      }
      return { taken, refused };
    });
  }

  seal(timelineId: string, names: readonly string[]): Promise<void> {
    return this.#inTurn(timelineId, async () => {
      const { log } = archivePaths(this.#root, timelineId);
      for (const name of names) await seal(join(log, groupOf(name), name));
    });
  }

  takeCopy(timelineId: string, name: string, path: string): Promise<ArchivedFile> {
    return this.#inTurn(timelineId, async () => {
      const { log, incoming } = archivePaths(this.#root, timelineId);
      const group = join(log, groupOf(name));
      const known = (await readSums(group)).get(name);
      if (known && !known.copy && (await lstat(join(group, name)).catch(ignoreAbsent))) return known;
      await mkdir(group, { recursive: true, mode: 0o700 });
      const { entry, place } = await copyBeside(path, { group, name, writer: await writerOf(incoming) });
      await appendSums(group, [entry]);
      await place();
      await syncDirectory(group);
      await syncDirectory(log);
      return entry;
    });
  }

  mend(timelineId: string, name: string, path: string): Promise<boolean> {
    return this.#inTurn(timelineId, async () => {
      const { log, incoming } = archivePaths(this.#root, timelineId);
      const group = join(log, groupOf(name));
      const entries = (await readAllSums(group)).get(name);
      if (!entries) return false;
      const whole = await this.#read(timelineId, name).catch((error) => {
        if (!(error instanceof ArchiveError)) throw error;
        return undefined;
      });
      if (whole) return true;
      const copy = await copyBeside(path, { group, name, writer: await writerOf(incoming) }).catch((error) => {
        if (!(error instanceof RefusedFile)) throw error;
        return undefined;
      });
      // Of an earlier entry it may be a copy of a segment that was not yet full: the log would end in it.
      if (copy?.entry.sha256 !== entries.at(-1)!.sha256) {
        await rm(join(group, `${name}.new`), { force: true });
        return false;
      }
      await copy.place();
      await syncDirectory(group);
      return true;
    });
  }

  async lost(timelineId: string): Promise<string[]> {
    // A copy is noted before it has its name, in one turn.
    const groups = await this.#inTurn(timelineId, () => this.#groups(timelineId));
    const lost = groups.flatMap(({ noted, there }) => noted.filter(({ name }) => !there.has(name)));
    return lost.map(({ name }) => name).sort();
  }

  async list(timelineId: string): Promise<ArchivedFile[]> {
    const files: ArchivedFile[] = [];
    for (const { noted, there } of await this.#groups(timelineId)) {
      files.push(...noted.filter(({ name }) => there.has(name)));
    }
    return files.sort((a, b) => (a.name < b.name ? -1 : 1));
  }

  /** What each group's list says, and the names that are there. */
  async #groups(timelineId: string): Promise<{ noted: SumsEntry[]; there: Set<string> }[]> {
    const { log } = archivePaths(this.#root, timelineId);
    const names = (await readdir(log).catch(ignoreAbsent)) ?? [];
    return Promise.all(
      names.map(async (name) => ({
        noted: [...(await readSums(join(log, name))).values()],
        // It goes with its last file, perhaps at this moment, by another process.
        there: new Set(await readdir(join(log, name)).catch(ignoreAbsent)),
      })),
    );
  }

  async read(timelineId: string, name: string): Promise<Buffer> {
    try {
      return await this.#read(timelineId, name);
    } catch (error) {
      if (!(error instanceof ArchiveError)) throw error;
      // Perhaps it was just being replaced; in its turn nothing is.
      return this.#inTurn(timelineId, () => this.#read(timelineId, name));
    }
  }

  async #read(timelineId: string, name: string): Promise<Buffer> {
    const group = join(archivePaths(this.#root, timelineId).log, groupOf(name));
    const entries = (await readAllSums(group)).get(name) ?? [];
    for (const entry of entries.toReversed()) {
      const bytes = await readOwn(join(group, name), entry).catch((error: NodeJS.ErrnoException) => {
        if (error.code !== 'ENOENT') throw error;
        throw new ArchiveError('missing', name, `${name} of timeline ${timelineId} is no longer in the archive`);
      });
      if (bytes && sha256Of(bytes) === entry.sha256) return bytes;
    }
    if (entries.length === 0) {
      throw new ArchiveError('missing', name, `${name} of timeline ${timelineId} is not in the archive`);
    }
    const message = `${name} of timeline ${timelineId} does not have the checksum that it had when it was archived`;
    throw new ArchiveError('checksum', name, message);
  }

  async copyTo(timelineId: string, name: string, directory: string): Promise<void> {
    const bytes = await this.read(timelineId, name);
    await giveCopy(join(archivePaths(this.#root, timelineId).log, groupOf(name), name), bytes, directory, name);
  }

  ensureRemoved(timelineId: string, names: readonly string[]): Promise<void> {
    return this.#inTurn(timelineId, async () => {
      const { log } = archivePaths(this.#root, timelineId);
      for (const [group, members] of byGroup(names)) {
        const directory = join(log, group);
        if (!(await lstat(directory).catch(ignoreAbsent))) continue;
        // First from the list: a file that is on it and not there is damage.
        await dropSums(directory, new Set(members));
        for (const name of members) await rm(join(directory, name), { force: true });
        const left = await readdir(directory);
        // A file that is there and not on the list is about to be noted, by whoever takes it in the next time.
        if (!left.some(isArchivable)) await rm(directory, { recursive: true, force: true });
      }
    });
  }

  ensureDeleted(timelineId: string): Promise<void> {
    return this.#inTurn(timelineId, () => removeTree(archivePaths(this.#root, timelineId).timeline));
  }

  async timelines(): Promise<string[]> {
    return ((await readdir(this.#root).catch(ignoreAbsent)) ?? []).filter(isTimeline);
  }

  async #inTurn<T>(timelineId: string, body: () => Promise<T>): Promise<T> {
    const before = this.#turns.get(timelineId) ?? Promise.resolve();
    const turn = before.then(body, body);
    const settled = turn.catch(() => undefined);
    this.#turns.set(timelineId, settled);
    try {
      return await turn;
    } finally {
      if (this.#turns.get(timelineId) === settled) this.#turns.delete(timelineId);
    }
  }
}

/** Who may write into the incoming directory; undefined where everything runs as one user. */
async function writerOf(incoming: string): Promise<ArchiveWriter | undefined> {
  if (process.getuid?.() !== 0) return undefined;
  const { uid, gid } = await stat(incoming);
  return uid === 0 ? undefined : { uid, gid };
}

function byGroup(names: readonly string[]): Map<string, string[]> {
  return Map.groupBy(names, groupOf);
}

/** So many names, of whatever a customer may have put there: segments to take, and what nobody needs. */
async function listIncoming(incoming: string): Promise<{ files: string[]; strange: string[] }> {
  const files: string[] = [];
  const strange: string[] = [];
  const directory = await opendir(incoming).catch(ignoreAbsent);
  if (!directory) return { files, strange };
  let seen = 0;
  for await (const { name } of directory) {
    if (isArchivable(name)) files.push(name);
    else if (!isUnfinished(name)) strange.push(name);
    if (files.length + strange.length >= TAKE_MAX || ++seen >= NAMES_MAX) break;
  }
  return { files: files.sort(), strange };
}

/** Kept for whoever looks into it, out of the way of the next one of that name; or removed where there is nothing to see. */
async function setAside(
  { incoming, refused }: ArchivePaths,
  name: string,
  { message, keep }: RefusedFile,
): Promise<void> {
  if (!keep || (await readdir(refused)).length >= REFUSED_MAX) return removeTree(join(incoming, name));
  await removeTree(join(refused, name));
  await rename(join(incoming, name), join(refused, name)).catch(ignoreAbsent);
  await writeFile(join(refused, `${name}.reason`), `${message}\n`);
}

function ignoreAbsent(error: NodeJS.ErrnoException): undefined {
  if (error.code !== 'ENOENT') throw error;
}
