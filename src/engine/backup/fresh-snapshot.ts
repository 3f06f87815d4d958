import { access } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { TimelineId } from '../../domain/ids.ts';
import type { VolumeRef } from '../../drivers/storage/contract.ts';
import { consistentEnd } from '../../postgres/consistent-end.ts';
import { readControlFile } from '../../postgres/control-file.ts';
import { findTimeline } from '../../store/observations.ts';
import { findReadySnapshots } from '../../store/timeline-snapshots.ts';
import { cloneRunning } from '../clone-running.ts';
import type { EngineContext } from '../context.ts';
import { takeAlone } from '../history/snapshot-work.ts';
import { copyStopped, snapshotOwner, takeSnapshot } from '../history/snapshots.ts';
import { wroteSince } from '../history/written-since.ts';
import { findRunningServer } from '../running-server.ts';

/** A server that starts or stops meanwhile, or is being copied by somebody else, gets in the way now and then. */
const ATTEMPTS_MAX = 20;
const ATTEMPT_INTERVAL_MS = 1_000;

/**
 * A timeline has a snapshot that holds whatever was committed before `since`: the newest it has, when nothing was written
 * after that, or a new one. Holds no claim, so that nobody waits for a backup: a sleeping server that is started while
 * its volume is copied is noticed, and copied as a running one. Nothing is done for a timeline that is gone.
 */
export async function ensureSnapshotSince(
  ctx: EngineContext,
  id: TimelineId,
  since: Date,
  signal: AbortSignal,
): Promise<void> {
  let failure: unknown;
  for (let attempt = 0; attempt < ATTEMPTS_MAX; attempt++) {
    if (attempt > 0) await delay(ATTEMPT_INTERVAL_MS, undefined, { signal });
    const timeline = await findTimeline(ctx.store, id);
    if (!timeline?.volume || timeline.deleted_at) return;
    const { volume } = timeline;
    const newest = (await findReadySnapshots(ctx.store, id)).at(-1);
    if (newest && (newest.created_at >= since || !(await wroteSince(ctx, { id, volume }, newest.lsn)))) return;
    try {
      await takeAlone(ctx, id, signal, async (either) => {
        const compute = await findRunningServer(ctx, id);
        if (compute) await takeRunning(ctx, { id, volume, compute }, either);
        else await takeStopped(ctx, { id, volume }, either);
      });
      failure = undefined;
    } catch (error) {
      signal.throwIfAborted();
      failure = error;
    }
  }
  throw failure ?? new Error('the branch was being copied all the time');
}

async function takeRunning(
  ctx: EngineContext,
  source: { readonly id: TimelineId; readonly volume: VolumeRef; readonly compute: { driver: string; id: string } },
  signal: AbortSignal,
): Promise<void> {
  const { compute } = source;
  await takeSnapshot(ctx, {
    timeline_id: source.id,
    kind: 'running',
    store: ctx.intent,
    copy: (id) => cloneRunning(ctx, { source, compute, id, owner: snapshotOwner(), signal }),
  });
}

async function takeStopped(
  ctx: EngineContext,
  source: { readonly id: TimelineId; readonly volume: VolumeRef },
  signal: AbortSignal,
): Promise<void> {
  const path = ctx.storage.path(source.volume);
  const timestamp = new Date();
  const before = await readControlFile(path);
  const lsn = await consistentEnd(path);
  await takeSnapshot(ctx, {
    timeline_id: source.id,
    kind: 'suspend',
    store: ctx.intent,
    copy: async (id) => {
      const volume = await copyStopped(ctx, source.volume, id, signal);
      // A start and a stop in between are a checkpoint more; a start alone is a server that runs, or is about to.
      const { state, checkpointLsn } = await readControlFile(path);
      const same = state === before.state && checkpointLsn === before.checkpointLsn;
      if (!same || (await hasServer(path))) throw new Error('its server was started while it was copied');
      return { volume, point: { lsn, timestamp } };
    },
  });
}

/** Postgres writes the file before it touches anything else, and removes it last. */
const hasServer = (path: string): Promise<boolean> =>
  access(join(path, 'postmaster.pid')).then(
    () => true,
    () => false,
  );
