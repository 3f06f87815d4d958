import type { HistoryPoint } from '../../domain/history.ts';
import { formatLsn, parseLsn } from '../../domain/lsn.ts';
import type { ComputeRef } from '../../drivers/compute/contract.ts';
import type { VolumeRef } from '../../drivers/storage/contract.ts';
import { readControlFile } from '../../postgres/control-file.ts';
import { recoveryStart } from '../../postgres/recovery.ts';
import { switchWal } from '../../postgres/switch-wal.ts';
import { findSnapshotBefore } from '../../store/timeline-snapshots.ts';
import type { EngineContext } from '../context.ts';
import { sessions } from '../sessions.ts';
import { bytesSince } from './written-since.ts';

const MIB = 1024 ** 2;
/** A server that has written less since its last checkpoint has little to do at another one. */
const CHECKPOINT_BYTES_MIN = 32 * MIB;
/**
 * More is not replayed: a checkpoint writes at most the server's buffers, and a copy that was made by one shares all that
 * its source has.
 */
const REPLAY_BYTES_MAX = 512 * MIB;

/**
 * The head of a running server's timeline, where a copy of it is had more cheaply from the newest snapshot and the log
 * since than from the server's files: a copy of those begins with a checkpoint, which slows down everybody on the server.
 * @returns undefined where the checkpoint is cheap, or the log too long
 */
export async function headNearSnapshot(
  ctx: EngineContext,
  timeline: { readonly id: string; readonly volume: VolumeRef },
  compute: ComputeRef,
  signal: AbortSignal,
): Promise<HistoryPoint | undefined> {
  if (!ctx.storage.capabilities.instant_clone) return undefined;
  const control = await readControlFile(ctx.storage.path(timeline.volume));
  const since_checkpoint = await bytesSince(ctx, timeline.volume, control.redoLsn);
  if (since_checkpoint < CHECKPOINT_BYTES_MIN) return undefined;
  const now = formatLsn(parseLsn(control.redoLsn) + since_checkpoint);
  const snapshot = await findSnapshotBefore(ctx.store, timeline.id, now);
  if (!snapshot) return undefined;
  const start = await recoveryStart(ctx.storage.path(snapshot.volume));
  // Since then the server was promoted: a snapshot of this Postgres timeline is still to come.
  if (start.pg_timeline !== control.timeline) return undefined;
  if (parseLsn(now) - parseLsn(start.redo_lsn) > REPLAY_BYTES_MAX) return undefined;
  await using session = await sessions(ctx, compute, signal)('postgres');
  const { lsn, at } = await switchWal(session, control.walSegmentBytes);
  return { lsn, timestamp: at };
}
