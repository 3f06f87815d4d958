import { chmod, chown, lchown, lstat, mkdir, readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
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
import { archivePaths, groupOf, isArchivable } from './layout.ts';
import { appendSums, dropSums, readSums, type SumsEntry, syncDirectory } from './sums.ts';
import { giveCopy, sha256Of, takeCopyOf, takeFile } from './take.ts';

/** So many files are taken in at a time; the rest waits for the next call. */
const TAKE_MAX = 1_000;

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
    // Passable, since the server must reach its own directory below.
    for (const path of [this.#root, timeline]) {
      await mkdir(path, { recursive: true, mode: 0o711 });
      await chmod(path, 0o711);
    }
    for (const path of [log, refused]) await mkdir(path, { recursive: true, mode: 0o700 });
    await mkdir(incoming, { recursive: true, mode: 0o700 });
    if (writer) await chown(incoming, writer.uid, writer.gid);
  }

  archiveCommand(timelineId: string): string {
    return archiveCommand(archivePaths(this.#root, timelineId).incoming);
  }

  takeIn(timelineId: string, check: CheckSegment): Promise<TakenIn> {
    return this.#inTurn(timelineId, async () => {
      const paths = archivePaths(this.#root, timelineId);
      const names = (await readdir(paths.incoming).catch(ignoreAbsent)) ?? [];
      const taken: SumsEntry[] = [];
      const refused: { name: string; reason: string }[] = [];
      const writer = await writerOf(paths.incoming);
      for (const [group, members] of byGroup(names.filter(isArchivable).sort().slice(0, TAKE_MAX))) {
        const directory = join(paths.log, group);
        await mkdir(directory, { recursive: true, mode: 0o700 });
        const known = await readSums(directory);
        const entries: SumsEntry[] = [];
        for (const name of members) {
          const place = { incoming: paths.incoming, group: directory, name };
          try {
            entries.push(await takeFile(place, writer, known.get(name), (bytes) => check(name, bytes)));
          } catch (error) {
            if ((error as NodeJS.ErrnoException).code) throw error;
            refused.push({ name, reason: (error as Error).message });
            await setAside(paths, name, (error as Error).message);
          }
        }
        await appendSums(directory, entries);
        await syncDirectory(paths.log);
        for (const { name } of entries) await rm(join(paths.incoming, name), { force: true });
        taken.push(...entries);
      }
      return { taken, refused };
    });
  }

  takeCopy(timelineId: string, name: string, path: string): Promise<ArchivedFile> {
    return this.#inTurn(timelineId, async () => {
      const { log, incoming } = archivePaths(this.#root, timelineId);
      const group = join(log, groupOf(name));
      await mkdir(group, { recursive: true, mode: 0o700 });
      const entry = await takeCopyOf(path, { group, name }, await writerOf(incoming));
      await appendSums(group, [entry]);
      await syncDirectory(log);
      return entry;
    });
  }

  async list(timelineId: string): Promise<ArchivedFile[]> {
    const { log } = archivePaths(this.#root, timelineId);
    const files: ArchivedFile[] = [];
    for (const group of (await readdir(log).catch(ignoreAbsent)) ?? []) {
      files.push(...(await readSums(join(log, group))).values());
    }
    return files.sort((a, b) => (a.name < b.name ? -1 : 1));
  }

  async read(timelineId: string, name: string): Promise<Buffer> {
    const group = join(archivePaths(this.#root, timelineId).log, groupOf(name));
    const entry = (await readSums(group)).get(name);
    const bytes = await readFile(join(group, name)).catch(ignoreAbsent);
    if (!entry || !bytes) {
      throw new ArchiveError('missing', name, `${name} of timeline ${timelineId} is not in the archive`);
    }
    if (sha256Of(bytes) !== entry.sha256) {
      const message = `${name} of timeline ${timelineId} does not have the checksum that it had when it was archived`;
      throw new ArchiveError('checksum', name, message);
    }
    return bytes;
  }

  async copyTo(timelineId: string, name: string, directory: string): Promise<void> {
    await this.read(timelineId, name);
    const to = join(directory, name);
    await giveCopy(join(archivePaths(this.#root, timelineId).log, groupOf(name), name), to);
    if (process.getuid?.() !== 0) return;
    const { uid, gid } = await stat(directory);
    await lchown(to, uid, gid);
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
        if (left.every((name) => name === 'sums') && (await readSums(directory)).size === 0) {
          await rm(directory, { recursive: true, force: true });
        }
      }
    });
  }

  ensureDeleted(timelineId: string): Promise<void> {
    return this.#inTurn(timelineId, () =>
      rm(archivePaths(this.#root, timelineId).timeline, { recursive: true, force: true }),
    );
  }

  async timelines(): Promise<string[]> {
    return (await readdir(this.#root).catch(ignoreAbsent)) ?? [];
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

/** Kept for whoever looks into it, out of the way of the next one of that name. */
async function setAside(
  { incoming, refused }: { incoming: string; refused: string },
  name: string,
  reason: string,
): Promise<void> {
  await rm(join(refused, name), { recursive: true, force: true });
  await rename(join(incoming, name), join(refused, name));
  await writeFile(join(refused, `${name}.reason`), `${reason}\n`);
}

function ignoreAbsent(error: NodeJS.ErrnoException): undefined {
  if (error.code !== 'ENOENT') throw error;
}
