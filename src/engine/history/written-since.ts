import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { formatLsn, type Lsn, parseLsn } from '../../domain/lsn.ts';
import { ArchiveError } from '../../drivers/archive/contract.ts';
import type { VolumeRef } from '../../drivers/storage/contract.ts';
import { readControlFile } from '../../postgres/control-file.ts';
import { inDirectory } from '../../postgres/plain-files.ts';
import { segmentOfName } from '../../postgres/wal/pages.ts';
import { readRecords } from '../../postgres/wal/records.ts';
import { walSegmentName } from '../../postgres/wal-segment.ts';
import { findTimeline } from '../../store/observations.ts';
import type { EngineContext } from '../context.ts';
import { openLog } from './log.ts';

/** `RM_XLOG_ID` and `RM_STANDBY_ID`: checkpoints, switches, lists of running transactions. A server writes them unasked. */
const OF_THE_SERVER = new Set([0, 8]);
/** More than this is not read through to find out that nothing is in it. */
const READ_BYTES_MAX = 8 * 1024 ** 2;

/**
 * How many bytes of log were written since `from`, at most a segment too few. It looks at names alone, and needs no
 * session: it is asked of every running server all the time.
 */
export async function bytesSince(ctx: EngineContext, volume: VolumeRef, from: Lsn): Promise<bigint> {
  const { timeline, walSegmentBytes } = await readControlFile(ctx.storage.path(volume));
  const first = walSegmentName(timeline, parseLsn(from), walSegmentBytes);
  const newest = await newestSegment(ctx, volume);
  if (!newest || newest <= first) return 0n;
  return segmentOfName(newest, walSegmentBytes).start - parseLsn(from);
}

async function newestSegment(ctx: EngineContext, volume: VolumeRef): Promise<string | undefined> {
  const names = await inDirectory(join(ctx.storage.path(volume), 'pg_wal'), (wal) => readdir(wal));
  return names
    .filter((name) => /^[0-9A-F]{24}$/.test(name))
    .sort()
    .at(-1);
}

/** Whether anything but the server itself has written to the log of a timeline since `from`. */
export async function wroteSince(
  ctx: EngineContext,
  { id, volume }: { readonly id: string; readonly volume: VolumeRef },
  from: Lsn,
): Promise<boolean> {
  if ((await bytesSince(ctx, volume, from)) > READ_BYTES_MAX) return true;
  const timeline = await findTimeline(ctx.store, id);
  const newest = await newestSegment(ctx, volume);
  if (!timeline?.volume || !newest) return false;
  const { walSegmentBytes } = await readControlFile(ctx.storage.path(volume));
  const end = formatLsn(segmentOfName(newest, walSegmentBytes).start + BigInt(walSegmentBytes));
  // What its server has removed already is in the archive.
  const log = await openLog(ctx, timeline, { from, to: end });
  const records = readRecords(log, from, end);
  try {
    for (;;) {
      const { done, value } = await records.next();
      // Where it cannot be read there was something.
      if (done) return value.why === 'invalid';
      if (!OF_THE_SERVER.has(value.rmgr)) return true;
    }
  } catch (error) {
    if (!(error instanceof ArchiveError)) throw error;
    return true;
  }
}
