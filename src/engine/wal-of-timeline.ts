import { join } from 'node:path';
import { copyPlainFile, inDirectory } from '../postgres/plain-files.ts';
import type { TimelineRow } from '../store/schema.ts';
import type { EngineContext } from './context.ts';

/** Segments are of 1 MB; a server initialised elsewhere may have larger ones. */
const SEGMENT_BYTES_MAX = 1024 ** 3;

/**
 * Puts a segment of a timeline's log into a directory, as a plain file that may be changed: from where its server writes,
 * or, once that has removed it, from the archive. Throws ArchiveError when it is in neither.
 */
export async function bringSegment(
  ctx: EngineContext,
  timeline: TimelineRow,
  name: string,
  directory: string,
): Promise<void> {
  if (timeline.volume) {
    const written = join(ctx.storage.path(timeline.volume), 'pg_wal');
    try {
      return await inDirectory(written, (wal) =>
        copyPlainFile(join(wal, name), join(directory, name), SEGMENT_BYTES_MAX),
      );
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
    }
  }
  await ctx.archive.copyTo(timeline.id, name, directory);
}
