import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import type { TimelineId } from '../../domain/ids.ts';
import { parseLsn } from '../../domain/lsn.ts';
import type { CheckSegment, TakenIn } from '../../drivers/archive/contract.ts';
import { readControlFile } from '../../postgres/control-file.ts';
import { inDirectory, readPlainFile } from '../../postgres/plain-files.ts';
import { checkSegment } from '../../postgres/wal/pages.ts';
import { walSegmentName } from '../../postgres/wal-segment.ts';
import { noteDamage } from '../../store/history-damages.ts';
import { findTimeline } from '../../store/observations.ts';
import type { TimelineRow } from '../../store/schema.ts';
import type { EngineContext } from '../context.ts';
import { stopPoint } from '../stop-point.ts';

const SEGMENT = /^[0-9A-F]{24}$/;
const HISTORY_BYTES_MAX = 1024 ** 2;
/** A line tells where the log left a Postgres timeline: its number, a position, a reason. */
const HISTORY_LINE = /^(\d+\t[0-9A-F]+\/[0-9A-F]+\t.*)?$/;

/**
 * Takes in what the server of a timeline has archived: at most some thousand files, the rest next time. What is no
 * segment of this timeline's cluster is refused, noted as damage and reported.
 */
export async function takeInLog(ctx: EngineContext, timelineId: TimelineId): Promise<TakenIn> {
  const done = await ctx.archive.takeIn(timelineId, checkOf(ctx, timelineId));
  if (done.taken.length > 0) stopPoint('archive:taken');
  for (const { name, reason } of done.refused) {
    await reportDamage(ctx, timelineId, { kind: 'wrong_header', object: name, detail: reason });
  }
  return done;
}

/**
 * After a clean stop: everything that the server has archived, which is only ours from now on, and a copy of the segment that it would have gone on in.
 * The next server goes on in it, and replaces the copy when it is full.
 */
export async function takeInStopped(ctx: EngineContext, timelineId: TimelineId): Promise<void> {
  const timeline = await findTimeline(ctx.store, timelineId);
  if (!timeline?.volume || !(await ctx.archive.timelines()).includes(timelineId)) return;
  await takeInLog(ctx, timelineId);
  await ctx.archive.seal(timelineId, await writtenSegments(ctx, timeline.volume));
  const path = ctx.storage.path(timeline.volume);
  const control = await readControlFile(path);
  const name = walSegmentName(control.timeline, parseLsn(control.checkpointLsn), control.walSegmentBytes);
  const problem = await segmentCheck(ctx, timeline);
  await inDirectory(join(path, 'pg_wal'), async (wal) => {
    const reason = problem(name, await readPlainFile(join(wal, name), control.walSegmentBytes));
    if (reason) throw new Error(reason);
    await ctx.archive.takeCopy(timelineId, name, join(wal, name));
  });
}

/** Writes down what is wrong with a history and says so once; nobody is told again of what is known. */
export async function reportDamage(
  ctx: EngineContext,
  timeline_id: TimelineId,
  damage: { kind: 'missing_segment' | 'wrong_header' | 'wrong_checksum'; object: string; detail: string },
): Promise<void> {
  if (!(await noteDamage(ctx.store, { timeline_id, ...damage }))) return;
  const { object, detail } = damage;
  ctx.logger.error({ timeline_id, subject: object, reason: detail }, 'a history is damaged; coppice doctor tells more');
}

/** Names of the segments that the server of a timeline has in its own directory. */
export function writtenSegments(ctx: EngineContext, volume: NonNullable<TimelineRow['volume']>): Promise<string[]> {
  return inDirectory(join(ctx.storage.path(volume), 'pg_wal'), async (wal) =>
    (await readdir(wal)).filter((name) => SEGMENT.test(name)),
  );
}

/** Looks up what is expected only when there is a file to look at. */
function checkOf(ctx: EngineContext, timelineId: TimelineId): CheckSegment {
  let check: ReturnType<typeof segmentCheck> | undefined;
  return async (name, bytes) => {
    if (!SEGMENT.test(name)) return historyProblem(bytes);
    check ??= findTimeline(ctx.store, timelineId).then((timeline) => {
      if (!timeline) throw new Error(`timeline ${timelineId} is not known`);
      return segmentCheck(ctx, timeline);
    });
    return (await check)(name, bytes);
  };
}

/** Tells why a file is no segment of the timeline's. */
async function segmentCheck(
  ctx: EngineContext,
  { id, volume, system_identifier }: TimelineRow,
): Promise<(name: string, bytes: Buffer) => string | undefined> {
  if (!volume || !system_identifier) throw new Error(`timeline ${id} has no volume`);
  const { walSegmentBytes } = await readControlFile(ctx.storage.path(volume));
  const expected = { systemIdentifier: BigInt(system_identifier), wal_segment_bytes: walSegmentBytes };
  return (name, bytes) => {
    try {
      checkSegment(name, bytes, expected);
      return undefined;
    } catch (error) {
      return (error as Error).message;
    }
  };
}

function historyProblem(bytes: Buffer): string | undefined {
  const lines = bytes.length <= HISTORY_BYTES_MAX ? bytes.toString().split('\n') : [];
  const whole = lines.length > 0 && lines.every((line) => HISTORY_LINE.test(line));
  return whole ? undefined : 'it is no history file';
}
