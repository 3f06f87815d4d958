import type { SnapshotId } from '../domain/ids.ts';
import { lockLiveProject } from '../store/projects.ts';
import type { OperationRow } from '../store/schema.ts';
import { writeSnapshotDeletion } from '../store/snapshot-intent.ts';
import { type AccessibleProject, findSnapshotOf } from './access.ts';
import type { ActionContext } from './context.ts';

/** Deletes a snapshot. Branches that were restored from it stay, and so do those that are being restored. */
export function deleteSnapshot(
  context: ActionContext,
  project: AccessibleProject,
  id: SnapshotId,
): Promise<OperationRow[]> {
  return context.store.transaction().execute(async (trx) => {
    await lockLiveProject(trx, project.id);
    return writeSnapshotDeletion(trx, await findSnapshotOf(trx, project, id));
  });
}
