import { join } from 'node:path';
import type { TimelineId } from '../../domain/ids.ts';
import { inDirectory } from '../../postgres/plain-files.ts';
import { findTimeline } from '../../store/observations.ts';
import type { EngineContext } from '../context.ts';
import { stopPoint } from '../stop-point.ts';

/**
 * Replaces a segment of an archive that is missing or damaged by the one that the timeline's server still has. Only the
 * bytes that were archived will do, so that it does not matter who can write where the server does. False when it is
 * gone there, too, or when it is not the same.
 */
export async function mendSegment(ctx: EngineContext, timelineId: TimelineId, name: string): Promise<boolean> {
  const timeline = await findTimeline(ctx.store, timelineId);
  if (!timeline?.volume) return false;
  const mended = await inDirectory(join(ctx.storage.path(timeline.volume), 'pg_wal'), (wal) =>
    ctx.archive.mend(timelineId, name, join(wal, name)),
  ).catch((error: NodeJS.ErrnoException) => {
    // A link in the place of the directory can only be a customer's.
    if (/^(ENOENT|ENOTDIR|ELOOP)$/.test(error.code ?? '')) return false;
    throw error;
  });
  if (!mended) return false;
  stopPoint('archive:mended');
  ctx.logger.warn({ timeline_id: timelineId, subject: name }, 'a damaged segment was replaced by its original');
  return true;
}

/** The same for all that were archived and are not there any more, as far as the server still has them. */
export async function mendLost(ctx: EngineContext, timelineId: TimelineId, written: readonly string[]): Promise<void> {
  const there = new Set(written);
  for (const name of await ctx.archive.lost(timelineId)) {
    if (there.has(name)) await mendSegment(ctx, timelineId, name);
  }
}
