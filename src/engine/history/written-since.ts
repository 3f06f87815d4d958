import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { formatLsn, type Lsn, parseLsn } from '../../domain/lsn.ts';
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
  const path = ctx.storage.path(volume);
  const { timeline, walSegmentBytes } = await readControlFile(path);
  const first = walSegmentName(timeline, parseLsn(from), walSegmentBytes);
  const names = await inDirectory(path, (directory) => inDirectory(join(directory, 'pg_wal'), (wal) => readdir(wal)));
  const newest = names
    .filter((name) => /^[0-9A-F]{24}$/.test(name))
    .sort()
    .at(-1);
  if (!newest || newest <= first) return 0n;
  return segmentOfName(newest, walSegmentBytes).start - parseLsn(from);
}

/** Whether anything but the server itself has written to the log of a timeline since `from`. */
export async function wroteSince(
  ctx: EngineContext,
  { id, volume }: { readonly id: string; readonly volume: VolumeRef },
  from: Lsn,
): Promise<boolean> {
  if ((await bytesSince(ctx, volume, from)) > READ_BYTES_MAX) return true;
  const timeline = await findTimeline(ctx.store, id);
  if (!timeline?.volume) return false;
  const log = await openLog(ctx, timeline, { from });
  // What was removed already was more than nothing.
  if (log.names[0] !== (await nameOfSegment(ctx, volume, from))) return true;
  const end = parseLsn(from) + BigInt((log.names.length + 1) * log.wal_segment_bytes);
  const records = readRecords(log, from, formatLsn(end));
  for (;;) {
    const { done, value } = await records.next();
    // Where it cannot be read there was something.
    if (done) return value.why === 'invalid';
    if (!OF_THE_SERVER.has(value.rmgr)) return true;
  }
}

async function nameOfSegment(ctx: EngineContext, volume: VolumeRef, lsn: Lsn): Promise<string> {
  const { timeline, walSegmentBytes } = await readControlFile(ctx.storage.path(volume));
  return walSegmentName(timeline, parseLsn(lsn), walSegmentBytes);
}
