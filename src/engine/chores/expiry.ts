import { writeBranchDeletion } from '../../store/branch-deletion.ts';
import { findBranch, findExpiredBranches, listChildren } from '../../store/branches.ts';
import { lockLiveProject } from '../../store/projects.ts';
import { writeSnapshotDeletion } from '../../store/snapshot-intent.ts';
import { findExpiredSnapshots, findSnapshot } from '../../store/snapshots.ts';
import type { EngineContext } from '../context.ts';
import { forEach } from '../each.ts';

/** Deletes branches and snapshots whose time is over. What was given more time meanwhile stays. */
export async function deleteExpired(ctx: EngineContext, now: Date): Promise<void> {
  await forEach(ctx, 'expiry', await findExpiredSnapshots(ctx.store, now), ({ id, project_id }) =>
    ctx.intent.transaction().execute(async (trx) => {
      await lockLiveProject(trx, project_id);
      const snapshot = await findSnapshot(trx, id);
      if (snapshot?.expires_at && snapshot.expires_at <= now) await writeSnapshotDeletion(trx, snapshot);
    }),
  );
  await forEach(ctx, 'expiry', await findExpiredBranches(ctx.store, now), ({ id, project_id }) =>
    ctx.intent.transaction().execute(async (trx) => {
      await lockLiveProject(trx, project_id);
      const branch = await findBranch(trx, id);
      if (!branch?.expires_at || branch.expires_at > now) return;
      // None of these can expire by the API's rules; should one all the same, it is not lost.
      if (branch.protected || branch.is_default || (await listChildren(trx, id)).length > 0) return;
      await writeBranchDeletion(trx, branch);
    }),
  );
}
