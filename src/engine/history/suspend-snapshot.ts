import type { TimelineId } from '../../domain/ids.ts';
import { consistentEnd } from '../../postgres/consistent-end.ts';
import { findSnapshotNeed } from '../../store/timeline-snapshots.ts';
import type { EngineContext } from '../context.ts';
import { interruptSnapshots } from './snapshot-work.ts';
import { copyStopped, takeSnapshot } from './snapshots.ts';
import { wroteSince } from './written-since.ts';

/** Whoever comes meanwhile waits for the end of the suspend. A copy that takes longer is made while the server runs. */
const TAKE_TIMEOUT_MS = 5_000;

/**
 * Takes a snapshot of a timeline whose server has stopped, if anything was written since the last one: then it is clean
 * and costs next to nothing. Where a copy costs time and space, it is left to the budget of running servers. A suspend
 * does not fail for want of a snapshot.
 */
export async function takeSuspendSnapshot(ctx: EngineContext, id: TimelineId, signal: AbortSignal): Promise<void> {
  const patience = AbortSignal.any([signal, AbortSignal.timeout(TAKE_TIMEOUT_MS)]);
  try {
    await interruptSnapshots(ctx, id);
    if (!ctx.storage.capabilities.instant_clone) return;
    const need = await findSnapshotNeed(ctx.store, id);
    if (!need || (need.lsn && !(await wroteSince(ctx, need, need.lsn)))) return;
    const timestamp = new Date();
    const lsn = await consistentEnd(ctx.storage.path(need.volume));
    await takeSnapshot(ctx, {
      timeline_id: id,
      kind: 'suspend',
      store: ctx.store,
      copy: async (snapshot) => ({
        volume: await copyStopped(ctx, need.volume, snapshot, patience),
        point: { lsn, timestamp },
      }),
    });
  } catch (error) {
    ctx.logger.warn({ timeline_id: id, err: error }, 'a compute sleeps without a snapshot of what it wrote');
  }
}
