import { closeSync, type Dirent, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { type OpenDirectory, openDirectory } from './open-directory.ts';

/** A name in a directory that is open. `path` is relative to the volume. */
export interface Entry {
  readonly directory: OpenDirectory;
  readonly name: string;
  readonly path: string;
}

export interface Visitor {
  /** Called before the contents; false leaves them out. */
  directory(entry: Entry, opened: OpenDirectory): boolean;
  file(entry: Entry): void;
  /** Symbolic links, pipes, sockets, devices. Refused where this is undefined. */
  other?(entry: Entry): void;
  /** Entries that are passed over, whatever they are. */
  omits?(entry: Entry): boolean;
  /** Called between entries; throws to stop the walk. */
  checkpoint(): void;
}

/** Postgres nests three directories deep; every level that is open costs a descriptor. */
const MAX_DEPTH = 16;

/** An entry that no volume may hold. `path` is relative to the volume. */
export class RefusedEntryError extends Error {
  constructor(path: string, problem: string) {
    super(`the volume cannot be used: ${JSON.stringify(path)} ${problem}`);
    this.name = 'RefusedEntryError';
  }
}

/** Visits a tree, synchronously. Never leaves it: no link is followed, whoever renames what meanwhile. What vanishes is passed over. */
export function walk(path: string, visitor: Visitor): void {
  const root = openDirectory(path);
  try {
    walkDirectory(root, '', 1, visitor);
  } finally {
    closeSync(root.fd);
  }
}

function walkDirectory(directory: OpenDirectory, path: string, depth: number, visitor: Visitor): void {
  if (depth > MAX_DEPTH) throw new RefusedEntryError(path, `is more than ${MAX_DEPTH} directories deep`);
  for (const dirent of readdirSync(directory.path, { withFileTypes: true })) {
    visitor.checkpoint();
    const entry: Entry = { directory, name: dirent.name, path: join(path, dirent.name) };
    // Such a name cannot be opened again, so the file would be left out in silence.
    if (dirent.name.includes('\ufffd')) throw new RefusedEntryError(entry.path, 'has a name that is not valid UTF-8');
    if (visitor.omits?.(entry)) continue;
    if (dirent.isDirectory()) walkChild(entry, depth, visitor);
    else if (dirent.isFile()) visitor.file(entry);
    else if (visitor.other) visitor.other(entry);
    else throw new RefusedEntryError(entry.path, `is ${describe(dirent)}; only directories and regular files may be`);
  }
}

function walkChild(entry: Entry, depth: number, visitor: Visitor): void {
  const opened = openUnlessVanished(() => openDirectory(join(entry.directory.path, entry.name)), entry);
  if (!opened) return;
  try {
    if (visitor.directory(entry, opened)) walkDirectory(opened, entry.path, depth + 1, visitor);
  } finally {
    closeSync(opened.fd);
  }
}

/** What `open` opens; undefined when the entry is gone since its directory was read. Refuses one that became something else. */
export function openUnlessVanished<T>(open: () => T, entry: Entry): T | undefined {
  try {
    return open();
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT') return undefined;
    if (code === 'ELOOP' || code === 'ENOTDIR' || code === 'ENXIO') {
      throw new RefusedEntryError(entry.path, 'was replaced by a link or a special file while it was read');
    }
    throw error;
  }
}

function describe(dirent: Dirent): string {
  if (dirent.isSymbolicLink()) return 'a symbolic link (tablespaces are not supported)';
  if (dirent.isFIFO()) return 'a named pipe';
  if (dirent.isSocket()) return 'a socket';
  return 'a special file';
}
