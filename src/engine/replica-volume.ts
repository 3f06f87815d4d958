import { ArchiveError } from '../drivers/archive/contract.ts';
import type { VolumeRef } from '../drivers/storage/contract.ts';
import { CLONE_OF_RUNNING, CLONE_OF_STOPPED, completeClone, startBackup } from '../postgres/backup.ts';
import type { ControlFile } from '../postgres/control-file.ts';
import { recoveryStart } from '../postgres/recovery.ts';
import { makeStandby, readFlushedLsn, syncSegments } from '../postgres/standby.ts';
import type { EndpointFacts } from '../store/observations.ts';
import { observeReplicaVolume } from '../store/replicas.ts';
import type { TimelineRow } from '../store/schema.ts';
import type { EngineContext } from './context.ts';
import { type PrimaryState, primaryState } from './primary-state.ts';
import { type LogAtHand, layReplicaLog, logOfRunning, logOfStopped, segmentsBehind } from './replica-log.ts';
import { sessions } from './sessions.ts';
import { stopPoint } from './stop-point.ts';
import { volumeOwner } from './volume-owner.ts';

/** From so many segments on a new copy is sooner there than what the replica missed is replayed. */
const SEGMENTS_BEHIND_MAX = 1024;

/**
 * The replica has a volume that its server, which does not run, can be started on, with all of its branch's log that lies
 * in files: the one that it had, or a new copy of its branch's. A replica holds nothing of its own, so that one which
 * cannot be brought up to date is thrown away.
 */
export async function ensureReplicaVolume(
  ctx: EngineContext,
  facts: EndpointFacts,
  timeline: TimelineRow,
  signal: AbortSignal,
): Promise<VolumeRef> {
  const source = await primaryState(ctx, timeline);
  const found = facts.replica_timeline_id === timeline.id ? await ctx.storage.find(facts.id) : undefined;
  if (found) {
    const usable = await bringUpToDate(ctx, timeline, found, source, signal).catch((error) => {
      signal.throwIfAborted();
      ctx.logger.info({ endpoint_id: facts.id, err: error }, 'a replica is made anew');
      return false;
    });
    if (usable) return found;
  }
  await observeReplicaVolume(ctx.intent, facts.id, undefined);
  // Also what an earlier attempt finished and could not say.
  await ctx.storage.ensureDeleted(facts.id);
  const volume = await clone(ctx, facts, timeline, source, signal);
  stopPoint('start_compute:replica_cloned');
  await observeReplicaVolume(ctx.intent, facts.id, { volume, timeline_id: timeline.id });
  return volume;
}

/** False when a new copy is better than the one that is there. */
async function bringUpToDate(
  ctx: EngineContext,
  timeline: TimelineRow,
  volume: VolumeRef,
  source: PrimaryState,
  signal: AbortSignal,
): Promise<boolean> {
  const { redo_lsn, pg_timeline, wal_segment_bytes } = await recoveryStart(ctx.storage.path(volume));
  const log = await logAtHand(ctx, timeline, source, { pg_timeline, wal_segment_bytes }, signal);
  if (log.pg_timeline !== pg_timeline) return false;
  if (ctx.storage.capabilities.instant_clone && segmentsBehind(redo_lsn, log) > SEGMENTS_BEHIND_MAX) return false;
  try {
    await layReplicaLog(ctx, timeline, volume, { from: redo_lsn, log, keep: true });
    return true;
  } catch (error) {
    if (error instanceof ArchiveError) return false;
    throw error;
  }
}

async function logAtHand(
  ctx: EngineContext,
  timeline: TimelineRow,
  source: PrimaryState,
  { pg_timeline, wal_segment_bytes }: { pg_timeline: number; wal_segment_bytes: number },
  signal: AbortSignal,
): Promise<LogAtHand> {
  if (source.state === 'stopped') return logOfStopped(ctx, timeline, source.control);
  await using session = await sessions(ctx, source.compute, signal)('postgres');
  return logOfRunning(await readFlushedLsn(session), pg_timeline, wal_segment_bytes);
}

async function clone(
  ctx: EngineContext,
  facts: EndpointFacts,
  timeline: TimelineRow,
  source: PrimaryState,
  signal: AbortSignal,
): Promise<VolumeRef> {
  const options = { owner: volumeOwner(ctx, facts), signal };
  const parent = timeline.volume!;
  if (source.state === 'stopped') {
    if (!source.control.clean) await syncSegments(ctx.storage.path(parent));
    return ctx.storage.ensureCloned(parent, facts.id, {
      ...CLONE_OF_STOPPED,
      ...options,
      prepare: async (path) => {
        stopPoint('start_compute:replica_copied');
        await requireUntouched(ctx, timeline, source.control);
        await makeStandby(path);
      },
    });
  }
  const backup = await startBackup(sessions(ctx, source.compute, signal));
  try {
    return await ctx.storage.ensureCloned(parent, facts.id, {
      ...CLONE_OF_RUNNING,
      ...options,
      prepare: async (path) => {
        stopPoint('start_compute:replica_copied');
        await completeClone(ctx.storage.path(parent), path, await backup.finish());
        await makeStandby(path);
      },
    });
  } finally {
    await backup.abandon();
  }
}

/**
 * Nothing holds a sleeping branch still while its replica is made, so that it can be woken meanwhile. Then the copy is
 * no moment of it, and is made again.
 */
async function requireUntouched(ctx: EngineContext, timeline: TimelineRow, before: ControlFile): Promise<void> {
  const after = await primaryState(ctx, timeline);
  const untouched =
    after.state === 'stopped' &&
    after.control.checkpointLsn === before.checkpointLsn &&
    after.control.time.getTime() === before.time.getTime() &&
    after.control.state === before.state;
  if (!untouched) throw new Error(`timeline ${timeline.id} was woken while a replica of it was made`);
}
