import { findPlacedEndpoints, findUnpurgedTimelines, observeProjectPurged } from '../../store/observations.ts';
import type { RunOperation } from '../run-call.ts';
import { removeCompute } from '../server.ts';
import { stopPoint } from '../stop-point.ts';
import { purgeTimeline } from './delete-timeline.ts';

/** Removes everything that a deleted project has on this machine. Its uid is free afterwards. */
export const deleteTenant: RunOperation = async (ctx, operation, signal) => {
  for (const endpoint of await findPlacedEndpoints(ctx.store, { project_id: operation.project_id })) {
    await removeCompute(ctx, endpoint, 'immediate');
  }
  stopPoint('delete_tenant:stopped');
  for (const timeline of await findUnpurgedTimelines(ctx.store, operation.project_id)) {
    signal.throwIfAborted();
    await purgeTimeline(ctx, timeline.id);
  }
  stopPoint('delete_tenant:purged');
  await observeProjectPurged(ctx.store, operation.project_id);
  return 'finished';
};
