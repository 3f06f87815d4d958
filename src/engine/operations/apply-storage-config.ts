import { findProject, findUnpurgedTimelines, observeRetentionApplied } from '../../store/observations.ts';
import { deleteArchive } from '../history/retention.ts';
import { thinProject } from '../history/thinning.ts';
import type { RunOperation } from '../run-call.ts';

/** Makes the restore window that was asked for the one that is kept. */
export const applyStorageConfig: RunOperation = async (ctx, operation) => {
  const project = await findProject(ctx.store, operation.project_id);
  if (!project || project.deleted_at) return 'skipped';
  if (project.applied_history_retention_seconds === project.history_retention_seconds) return 'skipped';
  await observeRetentionApplied(ctx.store, project.id, project.history_retention_seconds);
  await thinProject(ctx, project.id);
  if (project.history_retention_seconds === 0) {
    for (const { id } of await findUnpurgedTimelines(ctx.store, project.id)) await deleteArchive(ctx, id);
  }
  return 'finished';
};
