import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { type Lsn, parseLsn } from '../../domain/lsn.ts';
import { ArchiveError } from '../../drivers/archive/contract.ts';
import { readControlFile } from '../../postgres/control-file.ts';
import { copyPlainFile, inDirectory, readPlainFile } from '../../postgres/plain-files.ts';
import type { WalSegments } from '../../postgres/wal/segments.ts';
import { walSegmentName, walSegmentNames } from '../../postgres/wal-segment.ts';
import type { TimelineRow } from '../../store/schema.ts';
import type { EngineContext } from '../context.ts';
import { takeInLog } from './take-in.ts';

/** Segments are of 1 MB; a server initialised elsewhere may have larger ones. */
const SEGMENT_BYTES_MAX = 1024 ** 3;

/** Whose log it is. */
type Written = Pick<TimelineRow, 'id' | 'volume'>;

/**
 * The log of a timeline, to be read segment by segment.
 *
 * @param range.to where it ends; default: with the last segment that the timeline's own server has written
 */
export async function openLog(
  ctx: EngineContext,
  timeline: TimelineRow,
  { from, to }: { from: Lsn; to?: Lsn },
): Promise<WalSegments> {
  const { timeline: pg_timeline, walSegmentBytes } = await readControlFile(ctx.storage.path(timeline.volume!));
  const begin = parseLsn(from);
  const names = to
    ? walSegmentNames(pg_timeline, begin, parseLsn(to), walSegmentBytes)
    : await writtenSegments(ctx, timeline, walSegmentName(pg_timeline, begin, walSegmentBytes));
  return { wal_segment_bytes: walSegmentBytes, names, read: (name) => readSegment(ctx, timeline, name) };
}

async function writtenSegments(ctx: EngineContext, timeline: TimelineRow, first: string): Promise<string[]> {
  const names = await inDirectory(join(ctx.storage.path(timeline.volume!), 'pg_wal'), (wal) => readdir(wal));
  return names.filter((name) => /^[0-9A-F]{24}$/.test(name) && name >= first).sort();
}

const readSegment = (ctx: EngineContext, timeline: TimelineRow, name: string): Promise<Buffer> =>
  fromServerOrArchive(
    ctx,
    timeline,
    (wal) => readPlainFile(join(wal, name), SEGMENT_BYTES_MAX),
    () => ctx.archive.read(timeline.id, name),
  );

/** Puts a segment of a timeline's log into a directory, as a plain file that may be changed. */
export const bringSegment = (ctx: EngineContext, timeline: Written, name: string, directory: string): Promise<void> =>
  fromServerOrArchive(
    ctx,
    timeline,
    (wal) => copyPlainFile(join(wal, name), join(directory, name), SEGMENT_BYTES_MAX),
    () => ctx.archive.copyTo(timeline.id, name, directory),
  );

/**
 * Takes a segment from where its server writes, or, once that has removed it, from the archive. Throws ArchiveError when
 * it is in neither.
 */
async function fromServerOrArchive<T>(
  ctx: EngineContext,
  timeline: Written,
  fromServer: (wal: string) => Promise<T>,
  fromArchive: () => Promise<T>,
): Promise<T> {
  if (timeline.volume) {
    try {
      return await inDirectory(join(ctx.storage.path(timeline.volume), 'pg_wal'), fromServer);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
    }
  }
  try {
    return await fromArchive();
  } catch (error) {
    if (!(error instanceof ArchiveError) || error.kind !== 'missing') throw error;
    // Its server may have handed it over a moment ago.
    await takeInLog(ctx, timeline.id);
    return fromArchive();
  }
}
