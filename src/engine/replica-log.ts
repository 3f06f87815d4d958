import { type Lsn, parseLsn } from '../domain/lsn.ts';
import type { VolumeRef } from '../drivers/storage/contract.ts';
import { landSegments, segmentsOf, settledSegments, syncSegments } from '../postgres/standby.ts';
import { walSegmentName } from '../postgres/wal-segment.ts';
import type { TimelineRow } from '../store/schema.ts';
import type { EngineContext } from './context.ts';
import { bringSegment } from './history/log.ts';

/** What of a timeline's log a replica can be given in files. */
export interface LogAtHand {
  /** Segments that hold bytes before it are complete, and must be there. */
  readonly to: bigint;
  /** Nobody writes: whatever else lies there counts as well. */
  readonly with_rest: boolean;
  readonly pg_timeline: number;
  readonly segment_bytes: number;
}

/** A running server's: what it writes to at this moment is not touched. */
export const logOfRunning = (flushed: Lsn, pg_timeline: number, segment_bytes: number): LogAtHand => ({
  to: (parseLsn(flushed) / BigInt(segment_bytes)) * BigInt(segment_bytes),
  with_rest: false,
  pg_timeline,
  segment_bytes,
});

/**
 * A stopped server's. The end of one that was killed may not be on disk yet: it is made durable first, or the replica
 * could keep what its primary loses with the machine.
 */
export async function logOfStopped(
  ctx: EngineContext,
  timeline: TimelineRow,
  control: { checkpointLsn: Lsn; redoLsn: Lsn; clean: boolean; timeline: number; walSegmentBytes: number },
): Promise<LogAtHand> {
  if (!control.clean) await syncSegments(ctx.storage.path(timeline.volume!));
  const until = control.clean ? control.checkpointLsn : control.redoLsn;
  return {
    to: parseLsn(until) + 1n,
    with_rest: true,
    pg_timeline: control.timeline,
    segment_bytes: control.walSegmentBytes,
  };
}

/** The segments from a position on, in order: those that must be there, then those that are. */
function namesFrom(from: Lsn, log: LogAtHand, there: ReadonlySet<string>): string[] {
  const size = BigInt(log.segment_bytes);
  const names: string[] = [];
  for (let begin = (parseLsn(from) / size) * size; ; begin += size) {
    const name = walSegmentName(log.pg_timeline, begin, log.segment_bytes);
    if (begin >= log.to && !(log.with_rest && there.has(name))) return names;
    names.push(name);
  }
}

/** How many segments a replica that replays from a position would be given at most. */
export const segmentsBehind = (from: Lsn, log: LogAtHand): number =>
  Number((log.to - parseLsn(from)) / BigInt(log.segment_bytes));

/**
 * Puts the log from a position on into a replica's volume, from where its primary writes or from the archive.
 *
 * @param keep what the replica has already stays, but for its last segment
 * @returns how many segments were put
 * @throws ArchiveError when a segment is nowhere any more: nothing less than a new copy helps then
 */
export async function layReplicaLog(
  ctx: EngineContext,
  timeline: TimelineRow,
  volume: VolumeRef,
  { from, log, keep }: { from: Lsn; log: LogAtHand; keep: boolean },
): Promise<number> {
  const directory = ctx.storage.path(volume);
  const there = await segmentsOf(ctx.storage.path(timeline.volume!));
  const kept = keep ? await settledSegments(directory) : new Set<string>();
  const names = namesFrom(from, log, there).filter((name) => !kept.has(name));
  return landSegments(directory, names, (name, landing) => bringSegment(ctx, timeline, name, landing));
}
