import { writeBranchDeletion } from '../../store/branch-deletion.ts';
import { type DeletionMethod, findBranch, findExpiringBranches, listChildren } from '../../store/branches.ts';
import { lockLiveProject } from '../../store/projects.ts';
import { writeSnapshotDeletion } from '../../store/snapshot-intent.ts';
import { findExpiringSnapshots, findSnapshot } from '../../store/snapshots.ts';
import type { EngineContext } from '../context.ts';
import { forEach } from '../each.ts';

/** How far it looks ahead: the next look is at most so far away. */
const AHEAD_MS = 60_000;

/**
 * Deletes branches and snapshots whose time is over; such a branch is kept for a while where deleted ones are. What was given
 * more time meanwhile stays. Tells whether there was one, or will be within a minute.
 */
export async function deleteExpired(ctx: EngineContext, now: Date): Promise<boolean> {
  const method: DeletionMethod | undefined = ctx.keep_deleted_branches_ms > 0 ? 'ttl' : undefined;
  const ahead = new Date(now.getTime() + AHEAD_MS);
  const isOver = ({ expires_at }: { readonly expires_at: Date }) => expires_at <= now;
  const snapshots = await findExpiringSnapshots(ctx.store, ahead);
  const branches = await findExpiringBranches(ctx.store, ahead);
  await forEach(ctx, 'expiry', snapshots.filter(isOver), ({ id, project_id }) =>
    ctx.intent.transaction().execute(async (trx) => {
      await lockLiveProject(trx, project_id);
      const snapshot = await findSnapshot(trx, id);
      if (snapshot?.expires_at && snapshot.expires_at <= now) await writeSnapshotDeletion(trx, snapshot);
    }),
  );
  await forEach(ctx, 'expiry', branches.filter(isOver), ({ id, project_id }) =>
    ctx.intent.transaction().execute(async (trx) => {
      await lockLiveProject(trx, project_id);
      const branch = await findBranch(trx, id);
      if (!branch?.expires_at || branch.expires_at > now) return;
      // None of these can expire by the API's rules; should one all the same, it is not lost.
      if (branch.protected || branch.is_default || (await listChildren(trx, id)).length > 0) return;
      await writeBranchDeletion(trx, branch, method);
    }),
  );
  return snapshots.length + branches.length > 0;
}
