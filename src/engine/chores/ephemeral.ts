import { writeBranchDeletion } from '../../store/branch-deletion.ts';
import { findUnusedEphemeralBranches, isUnusedEphemeralBranch } from '../../store/ephemeral-branches.ts';
import { lockLiveProject } from '../../store/projects.ts';
import type { EngineContext } from '../context.ts';
import { forEach } from '../each.ts';

/**
 * Removes the copies of branches that were made for clients who looked into the past, once their computes sleep or could
 * not be started; tells whether there was one. Whoever comes back before is served by the copy that is there, and later by a new one.
 */
export async function removeEphemeralBranches(ctx: EngineContext): Promise<boolean> {
  const unused = await findUnusedEphemeralBranches(ctx.store);
  await forEach(ctx, 'ephemeral', unused, (copy) =>
    ctx.intent.transaction().execute(async (trx) => {
      await lockLiveProject(trx, copy.project_id);
      if (await isUnusedEphemeralBranch(trx, copy.id)) await writeBranchDeletion(trx, copy);
    }),
  );
  return unused.length > 0;
}
