import { once } from 'node:events';
import { type Headers, type Pack, pack } from 'tar-stream';
import type { StorageDriver, VolumeEntry, VolumeRef } from '../../drivers/storage/contract.ts';

/** Files that the archive has instead of, or besides, those of the volume: by their path. */
export type AddedFiles = ReadonlyMap<string, string>;

const PIECE_BYTES = 1024 * 1024;
/** Barman writes it last; whoever copies a running server must. Ours does not run, but a reader may go by the order. */
const CONTROL_FILE = 'global/pg_control';
/** What a server makes anew, or what is given apart from the base: contents, not the directory. */
const EMPTIED = [
  'pg_wal',
  'pg_replslot',
  'pg_dynshmem',
  'pg_notify',
  'pg_serial',
  'pg_snapshots',
  'pg_stat_tmp',
  'pg_subtrans',
];
const LEFT_OUT = /(^|\/)(pg_internal\.init|pgsql_tmp[^/]*|postmaster\.(pid|opts)|standby\.signal|recovery\.signal)$/;
/** Whoever unpacks it as root gives it to that user of his, if he has one. */
const OWNER = { uname: 'postgres', gname: 'postgres', uid: 0, gid: 0 };

/**
 * A data directory that nobody writes, as a tar archive in pieces. What it reads is bounded by how fast the pieces are taken.
 */
export async function* baseArchive(
  storage: StorageDriver,
  volume: VolumeRef,
  { added, signal }: { readonly added: AddedFiles; readonly signal?: AbortSignal },
): AsyncGenerator<Buffer> {
  const archive = pack({ highWaterMark: PIECE_BYTES });
  const written = writeEntries(archive, storage, volume, { added, signal }).then(
    () => archive.finalize(),
    (error) => archive.destroy(error),
  );
  try {
    for await (const piece of archive) yield piece as Buffer;
  } finally {
    archive.destroy();
    await written;
  }
}

async function writeEntries(
  archive: Pack,
  storage: StorageDriver,
  volume: VolumeRef,
  { added, signal }: { readonly added: AddedFiles; readonly signal?: AbortSignal },
): Promise<void> {
  const mtime = new Date();
  for (const [name, text] of added) archive.entry({ name, mode: 0o600, mtime, ...OWNER }, text);
  const entries = (await storage.entries(volume)).filter(({ path }) => isWanted(path) && !added.has(path));
  const isLast = ({ path }: VolumeEntry) => path === CONTROL_FILE;
  for (const entry of [...entries.filter((entry) => !isLast(entry)), ...entries.filter(isLast)]) {
    signal?.throwIfAborted();
    const header = { mode: entry.mode, mtime, ...OWNER };
    if (entry.kind === 'directory') archive.entry({ ...header, name: `${entry.path}/`, type: 'directory' });
    else await writeFile(archive, { ...header, name: entry.path, size: entry.bytes }, { storage, volume });
  }
}

async function writeFile(
  archive: Pack,
  header: Headers & { readonly size: number },
  from: { readonly storage: StorageDriver; readonly volume: VolumeRef },
): Promise<void> {
  const { name, size } = header;
  const { promise: ended, resolve, reject } = Promise.withResolvers<void>();
  ended.catch(() => undefined);
  const into = archive.entry(header, (error) => (error ? reject(error) : resolve()));
  for (let offset = 0; offset < size; offset += PIECE_BYTES) {
    const piece = await from.storage.read(from.volume, name, offset, Math.min(PIECE_BYTES, size - offset));
    if (piece.length === 0) throw new Error(`${name} became shorter while it was read`);
    // Nothing drains any more when whoever took the pieces is gone; then it ends.
    if (!into.write(piece)) await Promise.race([once(into, 'drain'), ended]);
  }
  into.end();
  await ended;
}

function isWanted(path: string): boolean {
  const [first, ...below] = path.split('/');
  return !(below.length > 0 && EMPTIED.includes(first!)) && !LEFT_OUT.test(path);
}
