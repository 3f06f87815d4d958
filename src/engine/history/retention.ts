import type { TimelineId } from '../../domain/ids.ts';
import { parseLsn } from '../../domain/lsn.ts';
import type { ArchivedFile } from '../../drivers/archive/contract.ts';
import { readControlFile } from '../../postgres/control-file.ts';
import { walSegmentName } from '../../postgres/wal-segment.ts';
import { type ArchivedTimeline, findArchivedTimeline } from '../../store/archives.ts';
import { isBackupUnderWay } from '../../store/backup-requests.ts';
import { findDamages, resolveDamage, resolveDamages } from '../../store/history-damages.ts';
import { observeArchiveBytes } from '../../store/metering.ts';
import type { EngineContext } from '../context.ts';
import { stopPoint } from '../stop-point.ts';
import { mendLost } from './mend.ts';
import { oldestNeeded } from './snapshots.ts';
import { reportDamage, takeInLog, writtenSegments } from './take-in.ts';

const SEGMENT = /^[0-9A-F]{24}$/;
/** A hole of more than that is told of as one. */
const MISSING_NAMED_MAX = 20;

/** Nothing of the timeline's log is kept any more, and so nothing can be wrong with it. */
export async function deleteArchive(ctx: EngineContext, id: TimelineId): Promise<void> {
  await ctx.archive.ensureDeleted(id);
  await observeArchiveBytes(ctx.store, id, 0);
  stopPoint('archive:deleted');
  await resolveDamages(ctx.store, id);
}

/**
 * Looks after one archive: removes it when its timeline is gone or keeps no history, removes segments that no snapshot
 * needs, and finds those that are missing.
 */
export async function tendArchive(ctx: EngineContext, id: TimelineId): Promise<void> {
  const timeline = await findArchivedTimeline(ctx.store, id);
  // Of what our own database does not know while the volume is there, it may just be the wrong database.
  if (!timeline) return (await ctx.storage.find(id)) ? undefined : ctx.archive.ensureDeleted(id);
  if (timeline.purged_at || timeline.retention_seconds === 0) return deleteArchive(ctx, id);
  if (!timeline.volume) return;
  // Before the archive is looked at: what its server removes meanwhile is in the archive then.
  const written = await writtenSegments(ctx, timeline.volume).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'ENOENT') throw error;
    return undefined;
  });
  // The volume goes at this moment, and the archive with it.
  if (!written) return;
  const { taken, refused } = await takeInLog(ctx, id);
  await mendLost(ctx, id, written);
  const archived = (await ctx.archive.list(id)).filter(({ name }) => SEGMENT.test(name));
  const oldest = await oldestNeeded(ctx, id);
  const floor = oldest && walSegmentName(oldest.pg_timeline, parseLsn(oldest.redo_lsn), oldest.wal_segment_bytes);
  const spare = archived.filter((file) => isSpare(file, floor, timeline));
  // A backup reads what it has seen to be there.
  if (spare.length > 0 && !(await isBackupUnderWay(ctx.store))) {
    await ctx.archive.ensureRemoved(
      id,
      spare.map(({ name }) => name),
    );
  }
  stopPoint('archive:removed');
  const kept = new Set(archived.map(({ name }) => name));
  for (const { name } of spare) kept.delete(name);
  const bytes = archived.reduce((sum, file) => sum + (kept.has(file.name) ? file.bytes : 0), 0);
  if (bytes !== timeline.archive_bytes) await observeArchiveBytes(ctx.store, id, bytes);
  await settleDamages(ctx, timeline, { kept, floor });
  // There may be more to take in than was taken.
  if (taken.length + refused.length > 0) return;
  await findMissing(ctx, timeline, { names: new Set([...kept, ...written]), floor });
}

/** Where in the log a segment stands, whatever Postgres timeline wrote it. */
const placeOf = (name: string): string => name.slice(8);

/** Before the first snapshot it is not known what that will need; what is older than the window it cannot be. */
function isSpare({ name, archived_at }: ArchivedFile, floor: string | undefined, timeline: ArchivedTimeline): boolean {
  if (floor !== undefined) return placeOf(name) < placeOf(floor);
  return archived_at.getTime() < Date.now() - timeline.retention_seconds * 1000;
}

/** Segments that there should be between the oldest and the newest, and that are neither archived nor the server's. */
async function findMissing(
  ctx: EngineContext,
  { id, volume }: ArchivedTimeline,
  { names, floor }: { names: ReadonlySet<string>; floor: string | undefined },
): Promise<void> {
  const control = await readControlFile(ctx.storage.path(volume!));
  const size = control.walSegmentBytes;
  const prefix = control.timeline.toString(16).toUpperCase().padStart(8, '0');
  const own = [...names].filter((name) => name.startsWith(prefix)).sort();
  const first = floor?.startsWith(prefix) ? floor : own[0];
  const last = own.at(-1);
  const missing: string[] = [];
  if (first !== undefined && last !== undefined) {
    for (let at = positionOf(first, size); at < positionOf(last, size); at += BigInt(size)) {
      const name = walSegmentName(control.timeline, at, size);
      if (!names.has(name)) missing.push(name);
      if (missing.length > MISSING_NAMED_MAX) break;
    }
  }
  for (const name of missing) {
    const detail = `${name} is neither in the archive nor where the server writes: the history stops before it`;
    await reportDamage(ctx, id, { kind: 'missing_segment', object: name, detail });
  }
}

function positionOf(name: string, segment_bytes: number): bigint {
  const high = BigInt(`0x${name.slice(8, 16)}`) << 32n;
  return high + BigInt(`0x${name.slice(16, 24)}`) * BigInt(segment_bytes);
}

/** What was found wrong is right again when the file is there, and forgotten when nobody can ask for it any more. */
async function settleDamages(
  ctx: EngineContext,
  { id, retention_seconds }: ArchivedTimeline,
  { kept, floor }: { kept: ReadonlySet<string>; floor: string | undefined },
): Promise<void> {
  for (const damage of await findDamages(ctx.store, id)) {
    const { kind, object, found_at } = damage;
    if (kind === 'missing_snapshot') continue;
    const passed = floor !== undefined && placeOf(object) < placeOf(floor);
    const mended = kind !== 'wrong_checksum' && kept.has(object);
    // What was refused may never have been a segment, so that its place tells nothing.
    const old = kind === 'wrong_header' && found_at.getTime() < Date.now() - retention_seconds * 1000;
    const gone = kind === 'wrong_checksum' && !kept.has(object);
    if (passed || mended || old || gone) await resolveDamage(ctx.store, damage.id);
  }
}
