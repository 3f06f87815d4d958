import { randomUUID } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { lstat, mkdir, open, readdir, readFile, rename, rm, rmdir, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { assertKey, type ObjectCall, ObjectError, type ObjectInfo, type ObjectStore } from '../contract.ts';

/** What is being written, or was when somebody was killed. No key begins so, since none has a name that begins with a point. */
const PARTIAL = '.partial-';
/** Nobody writes for so long. */
const PARTIAL_AGE_MAX_MS = 86_400_000;
const PIECE_BYTES = 1024 * 1024;

/**
 * Objects as plain files below a directory, which may be a mount of another machine's disk. The disk is trusted with what
 * it has confirmed; what is stored checks itself when it is read.
 */
export function createDirectoryObjects({ root }: { readonly root: string }): ObjectStore {
  return new DirectoryObjects(root);
}

class DirectoryObjects implements ObjectStore {
  readonly name = 'directory';
  readonly place: string;
  readonly #root: string;

  constructor(root: string) {
    this.#root = root;
    this.place = root;
  }

  async check(): Promise<void> {
    await this.#told(undefined, async () => {
      await mkdir(this.#root, { recursive: true, mode: 0o700 });
      const path = this.#partialPath();
      try {
        await writeDurably(path, [Buffer.from('can be written')]);
      } finally {
        await rm(path, { force: true });
      }
      for (const name of await readdir(this.#root)) {
        if (!name.startsWith(PARTIAL)) continue;
        const left = await stat(join(this.#root, name)).catch(ignoreAbsent);
        if (left && Date.now() - left.mtimeMs > PARTIAL_AGE_MAX_MS) await rm(join(this.#root, name), { force: true });
      }
    });
  }

  async put(key: string, bytes: Buffer, call?: ObjectCall): Promise<void> {
    await this.#write(key, [bytes], call);
  }

  async putStream(key: string, source: AsyncIterable<Buffer>, call?: ObjectCall): Promise<ObjectInfo> {
    return this.#write(key, source, call);
  }

  #write(
    key: string,
    source: AsyncIterable<Buffer> | Iterable<Buffer>,
    { signal }: ObjectCall = {},
  ): Promise<ObjectInfo> {
    const path = this.#path(key);
    return this.#told(key, async () => {
      await makeDirectories(this.#root, dirname(path));
      const partial = this.#partialPath();
      try {
        const bytes = await writeDurably(partial, source, signal);
        await rename(partial, path);
        await syncDirectory(dirname(path));
        return { key, bytes, stored_at: new Date() };
      } finally {
        await rm(partial, { force: true });
      }
    });
  }

  async get(key: string): Promise<Buffer> {
    const path = this.#path(key);
    return this.#told(key, () => readFile(path));
  }

  async *getStream(key: string): AsyncIterable<Buffer> {
    const path = this.#path(key);
    try {
      for await (const piece of createReadStream(path, { highWaterMark: PIECE_BYTES })) yield piece as Buffer;
    } catch (error) {
      throw this.#errorOf(key, error);
    }
  }

  async find(key: string): Promise<ObjectInfo | undefined> {
    const path = this.#path(key);
    return this.#told(key, async () => {
      const stats = await lstat(path).catch(ignoreAbsent);
      return stats?.isFile() ? { key, bytes: stats.size, stored_at: stats.mtime } : undefined;
    });
  }

  async *list(prefix: string): AsyncIterable<ObjectInfo> {
    // The directory that holds all of them, and what their names in it begin with.
    const end = prefix.lastIndexOf('/');
    const directory = end < 0 ? '' : prefix.slice(0, end);
    if (directory !== '') assertKey(directory);
    for await (const key of keysBelow(this.#root, directory)) {
      if (!key.startsWith(prefix)) continue;
      const found = await this.find(key);
      if (found) yield found;
    }
  }

  async ensureRemoved(keys: readonly string[]): Promise<void> {
    const directories = new Set<string>();
    for (const key of keys) {
      const path = this.#path(key);
      await this.#told(key, () => rm(path, { force: true }));
      directories.add(dirname(path));
    }
    for (const directory of directories) await this.#removeEmpty(directory);
  }

  /** Directories exist only for what they hold. */
  async #removeEmpty(directory: string): Promise<void> {
    for (let path = directory; path.startsWith(`${this.#root}/`); path = dirname(path)) {
      const removed = await rmdir(path).then(
        () => true,
        () => false,
      );
      if (!removed) return;
    }
  }

  #path(key: string): string {
    assertKey(key);
    return join(this.#root, key);
  }

  #partialPath(): string {
    return join(this.#root, `${PARTIAL}${randomUUID()}`);
  }

  async #told<T>(key: string | undefined, work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      throw this.#errorOf(key, error);
    }
  }

  /** What the system said as an ObjectError; anything else, such as what a source threw, as it is. */
  #errorOf(key: string | undefined, cause: unknown): unknown {
    const { code, message, syscall } = cause as NodeJS.ErrnoException;
    if (syscall === undefined) return cause;
    if (code === 'ENOENT' && key) {
      return new ObjectError('missing', key, `there is no object ${key} in ${this.#root}`, { cause });
    }
    const kind =
      code === 'EACCES' || code === 'EPERM' || code === 'EROFS' || code === 'ENOTDIR' ? 'refused' : 'unreachable';
    return new ObjectError(kind, key, `the directory ${this.#root} cannot be used: ${message}`, { cause });
  }
}

async function writeDurably(
  path: string,
  source: AsyncIterable<Buffer> | Iterable<Buffer>,
  signal?: AbortSignal,
): Promise<number> {
  const file = await open(path, 'wx', 0o600);
  try {
    let bytes = 0;
    for await (const piece of source) {
      signal?.throwIfAborted();
      await file.writeFile(piece);
      bytes += piece.length;
    }
    await file.sync();
    return bytes;
  } finally {
    await file.close();
  }
}

/** Makes a directory and its parents, each durable in its own parent. */
async function makeDirectories(root: string, path: string): Promise<void> {
  if (await stat(path).catch(ignoreAbsent)) return;
  const first = await mkdir(path, { recursive: true, mode: 0o700 });
  if (first === undefined) return;
  const top = first.length < root.length ? dirname(first) : root;
  for (let made = path; made.length >= first.length; made = dirname(made)) await syncDirectory(made);
  await syncDirectory(top);
}

async function* keysBelow(root: string, directory: string): AsyncIterable<string> {
  const names = (await readdir(join(root, directory), { withFileTypes: true }).catch(ignoreAbsent)) ?? [];
  // As S3 orders keys: by bytes, where the slash that follows a directory's name counts.
  const sorted = names
    .filter(({ name }) => !name.startsWith(PARTIAL))
    .map((entry) => ({ key: directory === '' ? entry.name : `${directory}/${entry.name}`, entry }))
    .map(({ key, entry }) => ({ key, entry, order: entry.isDirectory() ? `${key}/` : key }))
    .sort((a, b) => (a.order < b.order ? -1 : 1));
  for (const { key, entry } of sorted) {
    if (entry.isDirectory()) yield* keysBelow(root, key);
    else if (entry.isFile()) yield key;
  }
}

async function syncDirectory(path: string): Promise<void> {
  const handle = await open(path, 'r');
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

function ignoreAbsent(error: NodeJS.ErrnoException): undefined {
  if (error.code !== 'ENOENT') throw error;
}
