import { type Lsn, parseLsn } from '../../domain/lsn.ts';
import type { ArchiveDriver } from '../../drivers/archive/contract.ts';
import type { ObjectStore } from '../../drivers/objects/contract.ts';
import type { StorageDriver, VolumeRef } from '../../drivers/storage/contract.ts';
import { walSegmentName, walSegmentNames } from '../../postgres/wal-segment.ts';
import { barmanWalKey } from './backup-info.ts';

/** What is copied out of: a base, which holds the log from its start to its stop, and the archive of its timeline. */
export interface ExportSource {
  readonly storage: StorageDriver;
  readonly archive: ArchiveDriver;
  readonly timeline_id: string;
  readonly volume: VolumeRef;
  /** Postgres's own, which counts promotions. */
  readonly pg_timeline: number;
  readonly wal_segment_bytes: number;
  readonly start_lsn: Lsn;
  readonly stop_lsn: Lsn;
}

export interface ExportTarget {
  readonly objects: ObjectStore;
  readonly server_name: string;
  readonly signal?: AbortSignal;
}

/** So many segments are sent at once; each is in memory. */
const CONCURRENT_SEGMENTS = 4;
const HISTORY_BYTES_MAX = 1024 * 1024;

/**
 * The log that a base needs is in the place, and what was archived behind it without a gap.
 * @returns the name of the last segment
 */
export async function exportLog(source: ExportSource, target: ExportTarget): Promise<string> {
  const { pg_timeline, start_lsn, stop_lsn, wal_segment_bytes, archive, timeline_id } = source;
  const own = walSegmentNames(pg_timeline, parseLsn(start_lsn), parseLsn(stop_lsn), wal_segment_bytes);
  await exportHistoryFile(source, target);
  const last = own.pop()!;
  await put(target, own, (name) => fromBase(source, name));
  const whole = await wholeLast(source, last);
  if (!whole) {
    await put(target, [last], (name) => fromBase(source, name));
    return last;
  }
  const archived = new Set((await archive.list(timeline_id)).map(({ name }) => name));
  const behind = following(source, archived);
  await put(target, [last, ...behind], (name) => archive.read(timeline_id, name));
  return behind.at(-1) ?? last;
}

/** Pages from before a promotion name the Postgres timeline before, and are accepted where this file tells of it. */
async function exportHistoryFile(source: ExportSource, target: ExportTarget): Promise<void> {
  const name = `${source.pg_timeline.toString(16).toUpperCase().padStart(8, '0')}.history`;
  const entries = await source.storage.entries(source.volume);
  const found = entries.find(({ path }) => path === `pg_wal/${name}`);
  if (!found) return;
  if (found.bytes > HISTORY_BYTES_MAX) throw new Error(`${name} has ${found.bytes} bytes, and is no history file`);
  const bytes = await source.storage.read(source.volume, found.path, 0, found.bytes);
  await target.objects.put(barmanWalKey(target.server_name, name), bytes, { signal: target.signal });
}

/**
 * Whether the archive has the base's last segment with what was written behind its end, where the base's own is cut off. What
 * it has may be a copy from an earlier suspend, too.
 */
async function wholeLast(source: ExportSource, name: string): Promise<boolean> {
  const { archive, timeline_id, stop_lsn, wal_segment_bytes } = source;
  if (!(await archive.list(timeline_id)).some((file) => file.name === name)) return false;
  const end = Number((parseLsn(stop_lsn) - 1n) % BigInt(wal_segment_bytes)) + 1;
  const [archived, own] = await Promise.all([archive.read(timeline_id, name), fromBase(source, name)]);
  return archived.length === wal_segment_bytes && archived.subarray(0, end).equals(own.subarray(0, end));
}

/** The segments behind the base that are in the archive, up to the first that is not. */
function following(
  { pg_timeline, stop_lsn, wal_segment_bytes }: ExportSource,
  archived: ReadonlySet<string>,
): string[] {
  const names: string[] = [];
  const size = BigInt(wal_segment_bytes);
  for (let position = parseLsn(stop_lsn) - 1n + size; ; position += size) {
    const name = walSegmentName(pg_timeline, position, wal_segment_bytes);
    if (!archived.has(name)) return names;
    names.push(name);
  }
}

async function fromBase({ storage, volume, wal_segment_bytes }: ExportSource, name: string): Promise<Buffer> {
  const bytes = await storage.read(volume, `pg_wal/${name}`, 0, wal_segment_bytes);
  if (bytes.length !== wal_segment_bytes) throw new Error(`segment ${name} of the base has ${bytes.length} bytes`);
  return bytes;
}

async function put(
  { objects, server_name, signal }: ExportTarget,
  names: readonly string[],
  read: (name: string) => Promise<Buffer>,
): Promise<void> {
  const left = [...names];
  const putOn = async () => {
    try {
      for (let name = left.shift(); name; name = left.shift()) {
        signal?.throwIfAborted();
        await objects.put(barmanWalKey(server_name, name), await read(name), { signal });
      }
    } finally {
      // All are sent, or the export has failed.
      left.length = 0;
    }
  };
  const ends = await Promise.allSettled(Array.from({ length: CONCURRENT_SEGMENTS }, putOn));
  for (const end of ends) if (end.status === 'rejected') throw end.reason;
}
