import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { parseLsn } from '../../domain/lsn.ts';
import { ArchiveError } from '../../drivers/archive/contract.ts';
import { inDirectory, readPlainFile } from '../../postgres/plain-files.ts';
import { recoveryStart } from '../../postgres/recovery.ts';
import { walSegmentName, walSegmentNames } from '../../postgres/wal-segment.ts';
import type { BackupTimeline } from '../../store/backup-requests.ts';
import type { ReadySnapshot } from '../../store/timeline-snapshots.ts';
import type { EngineContext } from '../context.ts';
import { putSealed, sha256Of } from '../objects/sealed.ts';
import { type ObjectVolume, putVolume } from '../objects/volumes.ts';
import { logKey, type StoredLogFile, type StoredTimeline, volumeKey } from './manifest.ts';

const HISTORY = /^[0-9A-F]{8}\.history$/;
/** A server has handed its segments over by then, and Coppice has taken them in. */
const SEGMENT_WAIT_MS = 15_000;
const SEGMENT_POLL_MS = 500;
const CONCURRENT_FILES = 4;

/** What a backup reads: nothing is changed here, and another process works on it meanwhile. */
export type BackupSource = Pick<EngineContext, 'storage' | 'archive'>;

export interface BackupTarget extends Pick<ObjectVolume, 'objects' | 'chunks'> {
  /** Keys of what is there already of volumes and logs. */
  readonly known: Set<string>;
  /** Told how many bytes were put that were not chunks. */
  readonly sent: (bytes: number) => void;
}

/** A timeline of which there is no snapshot yet: it was made a moment ago. */
export class NothingToSend extends Error {
  override name = 'NothingToSend';
}

/**
 * Sends what is needed to have a timeline as it was in its newest snapshot, and any point of its history before. What is
 * there already is not read again.
 * @returns also names of segments that are nowhere any more
 */
export async function sendTimeline(
  source: BackupSource,
  timeline: BackupTimeline,
  snapshots: readonly ReadySnapshot[],
  target: BackupTarget,
): Promise<{ readonly stored: StoredTimeline; readonly missing: readonly string[] }> {
  const { id, parent_id, project_id, uid, distribution_id, frozen } = timeline;
  const keeps_history = !frozen && timeline.retention_seconds > 0;
  const about = { id, parent_id, project_id, uid, distribution_id, frozen, keeps_history };
  if (frozen) {
    await sendVolume(source, timeline.volume, target);
    return { stored: { ...about, volumes: [timeline.volume.id], newest_lsn: null, log: [] }, missing: [] };
  }
  // Without a window there is no way back, and only the newest counts.
  const wanted = keeps_history ? snapshots : snapshots.slice(-1);
  if (wanted.length === 0) throw new NothingToSend(`timeline ${id} has no snapshot`);
  for (const { volume } of wanted) await sendVolume(source, volume, target);
  const { log, missing } = keeps_history ? await sendLog(source, timeline, wanted, target) : { log: [], missing: [] };
  const volumes = wanted.map(({ volume }) => volume.id);
  return { stored: { ...about, volumes, newest_lsn: wanted.at(-1)!.lsn, log }, missing };
}

async function sendVolume(
  { storage }: BackupSource,
  volume: BackupTimeline['volume'],
  { objects, chunks, known }: BackupTarget,
): Promise<void> {
  const key = volumeKey(volume.id);
  if (known.has(key)) return;
  await putVolume(storage, volume, { objects, chunks, key });
  known.add(key);
}

/**
 * The log from where the oldest snapshot is replayed from, up to the segment that the newest one stands in: that has to be
 * written on by whoever goes on from there, and the volume holds it.
 */
async function sendLog(
  source: BackupSource,
  timeline: BackupTimeline,
  snapshots: readonly ReadySnapshot[],
  target: BackupTarget,
): Promise<{ log: StoredLogFile[]; missing: string[] }> {
  const [oldest, newest] = [snapshots[0]!, snapshots.at(-1)!];
  const { redo_lsn, pg_timeline, wal_segment_bytes } = await recoveryStart(source.storage.path(oldest.volume));
  const last = walSegmentName(pg_timeline, parseLsn(newest.lsn), wal_segment_bytes);
  const names = walSegmentNames(pg_timeline, parseLsn(redo_lsn), parseLsn(newest.lsn), wal_segment_bytes);
  const archived = new Map((await source.archive.list(timeline.id)).map((file) => [file.name, file]));
  const deadline = Date.now() + SEGMENT_WAIT_MS;
  const queue = [...names.filter((name) => name < last), ...[...archived.keys()].filter((name) => HISTORY.test(name))];
  const log: StoredLogFile[] = [];
  const missing: string[] = [];
  const sendOn = async () => {
    for (let name = queue.shift(); name !== undefined; name = queue.shift()) {
      const there = archived.get(name);
      if (there && target.known.has(logKey(timeline.id, there))) {
        log.push({ name, sha256: there.sha256, bytes: there.bytes });
        continue;
      }
      const bytes = await readFile(source, timeline, { name, wal_segment_bytes, deadline });
      if (!bytes) {
        missing.push(name);
        continue;
      }
      const file = { name, sha256: sha256Of(bytes).toString('hex'), bytes: bytes.length };
      const key = logKey(timeline.id, file);
      if (!target.known.has(key)) target.sent(await putSealed(target.objects, key, bytes));
      target.known.add(key);
      log.push(file);
    }
  };
  await Promise.all(Array.from({ length: CONCURRENT_FILES }, sendOn));
  return { log: log.sort((a, b) => (a.name < b.name ? -1 : 1)), missing: missing.sort() };
}

/** From the archive, or from where its server writes until it is there. Undefined when it is nowhere, or damaged. */
async function readFile(
  { archive, storage }: BackupSource,
  { id, volume }: BackupTimeline,
  { name, wal_segment_bytes, deadline }: { name: string; wal_segment_bytes: number; deadline: number },
): Promise<Buffer | undefined> {
  for (;;) {
    try {
      return await archive.read(id, name);
    } catch (error) {
      if (!(error instanceof ArchiveError)) throw error;
      if (error.kind === 'checksum') return undefined;
    }
    try {
      return await inDirectory(join(storage.path(volume), 'pg_wal'), (wal) =>
        readPlainFile(join(wal, name), wal_segment_bytes),
      );
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
    }
    if (Date.now() > deadline) return undefined;
    await delay(SEGMENT_POLL_MS);
  }
}
