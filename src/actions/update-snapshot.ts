import type { SnapshotId } from '../domain/ids.ts';
import { lockLiveProject } from '../store/projects.ts';
import { type SnapshotView, updateSnapshot as writeSnapshot } from '../store/snapshots.ts';
import { type AccessibleProject, findSnapshotOf } from './access.ts';
import type { ActionContext } from './context.ts';
import { readSnapshotExpiry } from './snapshot-expiry.ts';

export interface SnapshotChange {
  readonly name?: string;
  /** RFC 3339; null takes the expiry away. */
  readonly expires_at?: string | null;
}

/** Renames a snapshot, or changes when it expires. */
export function updateSnapshot(
  context: ActionContext,
  project: AccessibleProject,
  id: SnapshotId,
  wanted: SnapshotChange,
): Promise<SnapshotView> {
  return context.store.transaction().execute(async (trx) => {
    await lockLiveProject(trx, project.id);
    const before = await findSnapshotOf(trx, project, id);
    const expires_at =
      wanted.expires_at === undefined
        ? before.expires_at
        : wanted.expires_at && readSnapshotExpiry('snapshot.expires_at', wanted.expires_at, new Date());
    await writeSnapshot(trx, id, { name: wanted.name ?? before.name, expires_at: expires_at || null });
    return findSnapshotOf(trx, project, id);
  });
}
