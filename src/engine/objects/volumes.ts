import { chmod, mkdir, open } from 'node:fs/promises';
import { join } from 'node:path';
import type { ObjectStore } from '../../drivers/objects/contract.ts';
import type { StorageDriver, VolumeEntry, VolumeOwner, VolumeRef } from '../../drivers/storage/contract.ts';
import type { Chunks } from './chunks.ts';
import { getSealed, putSealed } from './sealed.ts';

/** Also the bound of a packed chunk of small files. */
const CHUNK_BYTES = 1024 * 1024;
/** So many chunks are sent or fetched at once; each is in memory. */
const CONCURRENT_CHUNKS = 8;
const ZEROS = Buffer.alloc(CHUNK_BYTES);
const FORMAT = 1;

/** `bytes` of a file: from a chunk, or zeros. */
export type Piece =
  | { readonly chunk: string; readonly offset: number; readonly bytes: number }
  | { readonly zeros: number };

export interface StoredEntry {
  readonly path: string;
  readonly kind: VolumeEntry['kind'];
  readonly mode: number;
  readonly pieces: readonly Piece[];
}

export interface StoredVolume {
  readonly format: number;
  readonly bytes: number;
  readonly entries: readonly StoredEntry[];
}

export interface ObjectVolume {
  readonly objects: ObjectStore;
  readonly chunks: Chunks;
  /** Of the list of its files; the volume is there when this object is. */
  readonly key: string;
  readonly signal?: AbortSignal;
}

/** A volume that nobody writes is in the object storage; returns its logical bytes. Its list is put last. */
export async function putVolume(storage: StorageDriver, volume: VolumeRef, to: ObjectVolume): Promise<number> {
  const entries: StoredEntry[] = [];
  const packer = createPacker(to);
  let bytes = 0;
  try {
    for (const { path, kind, mode, bytes: length } of await storage.entries(volume)) {
      const pieces: Piece[] = [];
      entries.push({ path, kind, mode, pieces });
      for (let offset = 0; offset < length; offset += CHUNK_BYTES) {
        to.signal?.throwIfAborted();
        const piece = await storage.read(volume, path, offset, Math.min(CHUNK_BYTES, length - offset));
        bytes += piece.length;
        await packer.add(piece, pieces);
      }
    }
    await packer.finish();
  } finally {
    await packer.settled();
  }
  // Its removal begins with its name: one that still has it has lost no file meanwhile.
  if (!(await storage.find(volume.id))) throw new Error(`volume ${volume.id} was deleted while it was sent`);
  const list: StoredVolume = { format: FORMAT, bytes, entries };
  await putSealed(to.objects, to.key, Buffer.from(JSON.stringify(list)), to.signal);
  return bytes;
}

/** Puts whole chunks as they are, and gathers what is smaller. */
function createPacker({ chunks, signal }: ObjectVolume) {
  const underWay = new Set<Promise<void>>();
  let failure: unknown;
  let gathered: { bytes: Buffer; pieces: Piece[]; index: number }[] = [];
  let gathered_bytes = 0;

  const start = async (work: () => Promise<void>) => {
    while (underWay.size >= CONCURRENT_CHUNKS) await Promise.race(underWay);
    if (failure) throw failure;
    const running = work()
      .catch((error) => {
        failure ??= error;
      })
      .finally(() => underWay.delete(running));
    underWay.add(running);
  };
  const flush = async () => {
    const members = gathered;
    gathered = [];
    gathered_bytes = 0;
    if (members.length === 0) return;
    await start(async () => {
      const chunk = await chunks.put(Buffer.concat(members.map((member) => member.bytes)), signal);
      let offset = 0;
      for (const member of members) {
        member.pieces[member.index] = { chunk, offset, bytes: member.bytes.length };
        offset += member.bytes.length;
      }
    });
  };
  return {
    /** The place of the piece is appended to `pieces`; it is known when `finish` returns. */
    add: async (bytes: Buffer, pieces: Piece[]) => {
      const index = pieces.push({ zeros: bytes.length }) - 1;
      if (bytes.equals(ZEROS.subarray(0, bytes.length))) return;
      if (bytes.length < CHUNK_BYTES) {
        if (gathered_bytes + bytes.length > CHUNK_BYTES) await flush();
        gathered.push({ bytes, pieces, index });
        gathered_bytes += bytes.length;
        return;
      }
      await start(async () => {
        pieces[index] = { chunk: await chunks.put(bytes, signal), offset: 0, bytes: bytes.length };
      });
    },
    finish: async () => {
      await flush();
      await Promise.all(underWay);
      if (failure) throw failure;
    },
    /** Nothing is being sent any more. */
    settled: () => Promise.all(underWay),
  };
}

export interface FetchedVolume extends ObjectVolume {
  readonly id: string;
  readonly owner?: VolumeOwner;
}

/** The volume is on this machine again, whole and durable; or nothing of it. Existing: returned as it is. */
export function fetchVolume(storage: StorageDriver, { id, owner, ...from }: FetchedVolume): Promise<VolumeRef> {
  return storage.ensureCreated(
    id,
    async (root) => {
      const { entries } = await readStoredVolume(from);
      const directories = entries.filter(({ kind }) => kind === 'directory');
      for (const { path } of directories) await mkdir(join(root, path), { mode: 0o700 });
      const fetch = chunkFetcher(from);
      const files = entries.filter(({ kind }) => kind === 'file');
      const fetchOn = async () => {
        try {
          for (let file = files.shift(); file; file = files.shift())
            await writeStoredFile(root, file, fetch, from.signal);
        } finally {
          // All are done, or none is worth having.
          files.length = 0;
        }
      };
      // Nobody writes into it any more when it is discarded.
      const ends = await Promise.allSettled(Array.from({ length: CONCURRENT_CHUNKS }, fetchOn));
      for (const end of ends) if (end.status === 'rejected') throw end.reason;
      for (const { path, mode } of directories) await chmod(join(root, path), mode | 0o700);
    },
    owner,
  );
}

/** Every chunk that a stored volume is made of, so that what no volume needs can be found. */
export async function chunksOf(from: ObjectVolume): Promise<Set<string>> {
  const { entries } = await readStoredVolume(from);
  return new Set(entries.flatMap(({ pieces }) => pieces.flatMap((piece) => ('chunk' in piece ? [piece.chunk] : []))));
}

/** What a volume is made of, by the list that was put last. */
export async function readStoredVolume({ objects, key, signal }: ObjectVolume): Promise<StoredVolume> {
  const list = JSON.parse((await getSealed(objects, key, signal)).toString()) as StoredVolume;
  if (list.format !== FORMAT) {
    throw new Error(`${key} in ${objects.place} was written by a newer Coppice (format ${list.format})`);
  }
  // Whoever can write there must not get us to write elsewhere.
  for (const { path } of list.entries) {
    if (path.split('/').some((name) => name === '' || name === '.' || name === '..')) {
      throw new Error(`${key} in ${objects.place} holds ${JSON.stringify(path)}, which is no path below a volume`);
    }
  }
  return list;
}

/** Fetches chunks; the last few that small files share are kept. */
export function chunkFetcher({ chunks, signal }: ObjectVolume): (name: string) => Promise<Buffer> {
  const kept = new Map<string, Promise<Buffer>>();
  return (name) => {
    const there = kept.get(name);
    if (there) return there;
    const fetched = chunks.get(name, signal);
    kept.set(name, fetched);
    fetched.catch(() => kept.delete(name));
    if (kept.size > CONCURRENT_CHUNKS) kept.delete(kept.keys().next().value!);
    return fetched;
  };
}

/** Makes a file below the root of a volume that nobody else reaches. */
export async function writeStoredFile(
  root: string,
  { path, mode, pieces }: StoredEntry,
  fetch: (name: string) => Promise<Buffer>,
  signal?: AbortSignal,
): Promise<void> {
  const file = await open(join(root, path), 'wx', 0o600);
  try {
    let position = 0;
    for (const piece of pieces) {
      signal?.throwIfAborted();
      if ('zeros' in piece) {
        position += piece.zeros;
        continue;
      }
      const bytes = (await fetch(piece.chunk)).subarray(piece.offset, piece.offset + piece.bytes);
      if (bytes.length !== piece.bytes) throw new Error(`chunk ${piece.chunk} is too short for ${path}`);
      for (let written = 0; written < bytes.length; ) {
        written += (await file.write(bytes, written, bytes.length - written, position + written)).bytesWritten;
      }
      position += bytes.length;
    }
    await file.truncate(position);
    await file.chmod(mode);
  } finally {
    await file.close();
  }
}
