import { observeTimelineArchived } from '../../store/archived-timelines.ts';
import type { StoreTransaction } from '../../store/connection.ts';
import {
  findDetachedTimelines,
  findLocalTimelines,
  mayBeDetached,
  observeTimelineDetached,
} from '../../store/detached-projects.ts';
import { discardLocal, putAway } from '../objects/put-away.ts';
import { storingAllAlone, toldOfObjects } from '../objects/storing.ts';
import type { RunOperation } from '../run-call.ts';
import { stopPoint } from '../stop-point.ts';

/**
 * Moves everything of a project that nobody uses to object storage: default and protected branches, parents, snapshots of the
 * API, whatever has a volume here. All of it goes in one commit, once all of it is stored: killed before, the project is
 * here, and afterwards nothing on this machine counts.
 */
export const tenantDetach: RunOperation = async (ctx, { project_id }, signal) => {
  const timelines = await findLocalTimelines(ctx.store, project_id);
  if (timelines.length > 0 && (await mayBeDetached(ctx.store, project_id))) {
    const ids = timelines.map(({ id }) => id);
    await storingAllAlone(ctx, ids, () =>
      toldOfObjects(async () => {
        for (const { id, volume } of timelines) await putAway(ctx, { id, volume, project_id, signal });
        stopPoint('tenant_detach:stored');
        signal.throwIfAborted();
        await ctx.intent.transaction().execute((trx) => observeDetached(trx, ids));
      }),
    );
  }
  stopPoint('tenant_detach:detached');
  const detached = await findDetachedTimelines(ctx.store, project_id);
  for (const { id } of detached) await discardLocal(ctx, id);
  return detached.length > 0 ? 'finished' : 'skipped';
};

async function observeDetached(trx: StoreTransaction, ids: readonly string[]): Promise<void> {
  for (const id of ids) {
    // One that was deleted meanwhile goes by an operation of its own.
    if (await observeTimelineArchived(trx, id)) await observeTimelineDetached(trx, id);
  }
}
