import { CoppiceError } from '../../domain/errors.ts';
import type { AskedPoint, HistoryPoint, HistoryReader } from '../../domain/history.ts';
import type { TimelineId } from '../../domain/ids.ts';
import { formatLsn, type Lsn, parseLsn } from '../../domain/lsn.ts';
import { findLsnCut, findTimeCut } from '../../postgres/wal/cuts.ts';
import { findProject, findTimeline } from '../../store/observations.ts';
import type { TimelineRow } from '../../store/schema.ts';
import { findOldestSnapshot, findSnapshotBefore } from '../../store/timeline-snapshots.ts';
import type { EngineContext } from '../context.ts';
import { broughtBack } from './bring-back.ts';
import { findHead } from './head.ts';
import { openLog } from './log.ts';

/** Finds points in the past of the timelines on this machine. */
export function historyReader(ctx: EngineContext): HistoryReader {
  return { resolve: (timelineId, asked) => resolve(ctx, timelineId, asked) };
}

/** The past of one timeline, between the two ends of what can be asked for. */
interface Past {
  readonly ctx: EngineContext;
  readonly timeline: TimelineRow;
  /** The oldest snapshot: there is nothing to replay from before. */
  readonly floor: HistoryPoint;
  readonly head: HistoryPoint;
}

async function resolve(ctx: EngineContext, timelineId: TimelineId, asked: AskedPoint): Promise<HistoryPoint> {
  const known = await findTimeline(ctx.store, timelineId);
  const timeline = known?.archived_at ? await broughtBack(ctx, known) : known;
  if (!timeline?.volume) throw new CoppiceError('branch_not_ready');
  const head = await findHead(ctx, timeline, 'lsn' in asked ? asked.lsn : undefined);
  const snapshot = await findOldestSnapshot(ctx.store, timelineId);
  const floor = snapshot ? { lsn: snapshot.lsn, timestamp: snapshot.taken_at } : head;
  const past: Past = { ctx, timeline, floor, head };
  const oldest = await oldestPoint(past);
  const found = snapshot && (await find(past, asked, oldest));
  if (found) return found;
  throw new CoppiceError('point_outside_history', {
    point: 'lsn' in asked ? `LSN ${asked.lsn}` : new Date(Number(asked.timestamp_us / 1000n)).toISOString(),
    from_timestamp: oldest.timestamp.toISOString(),
    from_lsn: oldest.lsn,
    to_timestamp: head.timestamp.toISOString(),
    to_lsn: head.lsn,
  });
}

/** The state that the restore window begins with, or the floor where that is younger. */
async function oldestPoint(past: Past): Promise<HistoryPoint> {
  const { ctx, timeline, floor, head } = past;
  const project = await findProject(ctx.store, timeline.project_id);
  const window_s = project?.applied_history_retention_seconds ?? project?.history_retention_seconds ?? 0;
  const begin = new Date(head.timestamp.getTime() - window_s * 1000);
  if (begin <= floor.timestamp) return floor;
  const { lsn } = await stateAt(past, microseconds(begin));
  return { lsn, timestamp: begin };
}

/** Undefined when the point lies outside. */
async function find(past: Past, asked: AskedPoint, oldest: HistoryPoint): Promise<HistoryPoint | undefined> {
  const { ctx, timeline, floor, head } = past;
  if ('timestamp_us' in asked) {
    const { timestamp_us } = asked;
    if (timestamp_us > microseconds(head.timestamp) || timestamp_us < microseconds(oldest.timestamp)) return undefined;
    return stateAt(past, timestamp_us);
  }
  const position = parseLsn(asked.lsn);
  if (position > parseLsn(head.lsn) || position < parseLsn(oldest.lsn)) return undefined;
  // A floor that ends a segment is the end of a record in that segment.
  const from = formatLsn(parseLsn(floor.lsn) - 1n);
  const log = await openLog(ctx, timeline, { from, to: head.lsn });
  const { lsn, timestamp } = await findLsnCut(log, asked.lsn, head.lsn);
  // Within the record that a snapshot ends with.
  const point = parseLsn(lsn) < parseLsn(floor.lsn) ? floor.lsn : lsn;
  return { lsn: point, timestamp: timestamp ?? (await snapshotTime(past, point)) };
}

/** What was committed at a time that is no earlier than the floor. */
async function stateAt({ ctx, timeline, floor, head }: Past, timestamp_us: bigint): Promise<HistoryPoint> {
  const log = await openLog(ctx, timeline, { from: floor.lsn, to: head.lsn });
  const cut = await findTimeCut(log, timestamp_us, head.lsn);
  return cut && parseLsn(cut.lsn) > parseLsn(floor.lsn) ? { lsn: cut.lsn, timestamp: cut.timestamp } : floor;
}

async function snapshotTime({ ctx, timeline, floor }: Past, lsn: Lsn): Promise<Date> {
  return (await findSnapshotBefore(ctx.store, timeline.id, lsn))?.taken_at ?? floor.timestamp;
}

const microseconds = (time: Date): bigint => BigInt(time.getTime()) * 1000n;
