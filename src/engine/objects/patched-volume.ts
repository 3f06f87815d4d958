import { chmod, type FileHandle, mkdir, open, rm, rmdir } from 'node:fs/promises';
import { join } from 'node:path';
import type { StorageDriver, VolumeRef } from '../../drivers/storage/contract.ts';
import {
  chunkFetcher,
  type FetchedVolume,
  type ObjectVolume,
  type Piece,
  readStoredVolume,
  type StoredEntry,
  type StoredVolume,
  writeStoredFile,
} from './volumes.ts';

/** A volume that was fetched before and is as it was stored. */
export interface FetchBase {
  readonly volume: VolumeRef;
  /** Of the list of its files. */
  readonly key: string;
}

/**
 * Like `fetchVolume`, from a copy of a volume that has much in common with it: only what differs is fetched and written,
 * and the rest stays shared where the file system can.
 */
export function fetchPatched(
  storage: StorageDriver,
  base: FetchBase,
  { id, owner, ...from }: FetchedVolume,
): Promise<VolumeRef> {
  return storage.ensureCloned(base.volume, id, {
    owner,
    signal: from.signal,
    prepare: async (root) => {
      const before = await readStoredVolume({ ...from, key: base.key });
      await patch(root, before, await readStoredVolume(from), from);
    },
  });
}

/** Bytes that a volume needs of its own beside the base that it is fetched from, if any. */
export function bytesBeside(wanted: StoredVolume, base?: StoredVolume): number {
  const known = filesOf(base?.entries ?? []);
  let bytes = 0;
  for (const { path, pieces } of wanted.entries) {
    for (const { piece, length } of changedPieces(pieces, known.get(path)?.pieces ?? [])) {
      if ('chunk' in piece) bytes += length;
    }
  }
  return bytes;
}

async function patch(root: string, before: StoredVolume, wanted: StoredVolume, from: ObjectVolume): Promise<void> {
  const known = new Map(before.entries.map((entry) => [entry.path, entry]));
  const kept = new Map(wanted.entries.map((entry) => [entry.path, entry]));
  // What a directory holds comes after it.
  for (const { path, kind } of before.entries.toReversed()) {
    if (kept.get(path)?.kind === kind) continue;
    known.delete(path);
    if (kind === 'directory') await rmdir(join(root, path));
    else await rm(join(root, path));
  }
  const fetch = chunkFetcher(from);
  for (const entry of wanted.entries) {
    const { path, kind, mode } = entry;
    const there = known.get(path);
    if (kind === 'directory') {
      if (!there) await mkdir(join(root, path), { mode: 0o700 });
    } else if (!there) await writeStoredFile(root, entry, fetch, from.signal);
    else await patchFile(root, there, entry, fetch);
    if (kind === 'directory' && there?.mode !== mode) await chmod(join(root, path), mode | 0o700);
  }
}

async function patchFile(
  root: string,
  before: StoredEntry,
  { path, mode, pieces }: StoredEntry,
  fetch: (name: string) => Promise<Buffer>,
): Promise<void> {
  const changed = changedPieces(pieces, before.pieces);
  const length = lengthOf(pieces);
  if (changed.length === 0 && length === lengthOf(before.pieces) && mode === before.mode) return;
  await chmod(join(root, path), 0o600);
  const file = await open(join(root, path), 'r+');
  try {
    for (const { piece, position } of changed) {
      if ('zeros' in piece) await writeAt(file, Buffer.alloc(piece.zeros), position);
      else {
        const bytes = (await fetch(piece.chunk)).subarray(piece.offset, piece.offset + piece.bytes);
        if (bytes.length !== piece.bytes) throw new Error(`chunk ${piece.chunk} is too short for ${path}`);
        await writeAt(file, bytes, position);
      }
    }
    await file.truncate(length);
    await file.chmod(mode);
  } finally {
    await file.close();
  }
}

async function writeAt(file: FileHandle, bytes: Buffer, position: number): Promise<void> {
  for (let written = 0; written < bytes.length; ) {
    written += (await file.write(bytes, written, bytes.length - written, position + written)).bytesWritten;
  }
}

/** Pieces of a file that are not at the same place of another one. */
function changedPieces(
  pieces: readonly Piece[],
  before: readonly Piece[],
): { readonly piece: Piece; readonly position: number; readonly length: number }[] {
  const known = new Map(placed(before).map(({ piece, position }) => [position, JSON.stringify(piece)]));
  return placed(pieces).filter(({ piece, position }) => known.get(position) !== JSON.stringify(piece));
}

function placed(pieces: readonly Piece[]): { piece: Piece; position: number; length: number }[] {
  let end = 0;
  return pieces.map((piece) => {
    const length = 'zeros' in piece ? piece.zeros : piece.bytes;
    end += length;
    return { piece, position: end - length, length };
  });
}

const lengthOf = (pieces: readonly Piece[]): number => {
  const last = placed(pieces).at(-1);
  return last ? last.position + last.length : 0;
};

const filesOf = (entries: readonly StoredEntry[]): Map<string, StoredEntry> =>
  new Map(entries.filter(({ kind }) => kind === 'file').map((entry) => [entry.path, entry]));
