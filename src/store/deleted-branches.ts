import { sql } from 'kysely';
import type { BranchId, ProjectId } from '../domain/ids.ts';
import { type OperationAction, UNFINISHED_STATUSES } from '../domain/operation-kinds.ts';
import { oneOf } from './any-of.ts';
import type { BranchView } from './branches.ts';
import { createCall } from './calls.ts';
import type { Store, StoreTransaction } from './connection.ts';
import { deleteJwksOfBranch } from './project-jwks.ts';
import type { OperationRow } from './schema.ts';
import { markTimelineDeleted } from './timelines.ts';

/**
 * Branches that were deleted and are kept for a while. Such a branch says how it was deleted, its endpoints have its very time
 * of deletion, and its timeline is as it was. Once it says so no more, nothing of it comes back.
 */

/** A deleted branch, as far as is needed to be rid of it. */
export type KeptBranch = Pick<BranchView, 'id' | 'project_id' | 'timeline_id'>;

/** What may be cut off without leaving half a branch behind: it is asked for again, or done by the next start. */
const MAY_BE_CUT_OFF = sql.join(
  oneOf([
    'start_compute',
    'suspend_compute',
    'apply_config',
    'timeline_archive',
    'timeline_unarchive',
  ] satisfies OperationAction[]),
);

/**
 * Whether a branch could come back as it was: it is finished, whatever is to be done to its data before somebody may see it
 * has been done, and no restore of it, or to what it is, is half done. Passing copies never are.
 */
export async function isWholeBranch(
  trx: StoreTransaction,
  { id, project_id }: Pick<BranchView, 'id' | 'project_id'>,
): Promise<boolean> {
  const { rows } = await sql`
    select from branches join timelines on timelines.id = branches.timeline_id
    where branches.id = ${id} and branches.ephemeral_of is null and branches.previous_timeline_id is null
      and timelines.ready_at is not null and timelines.deleted_at is null
      and not exists (select from branches other where other.previous_timeline_id = branches.timeline_id)
      and not exists (
        select from operations where operations.project_id = ${project_id} and operations.branch_id = branches.id
          and operations.status in (${sql.join(oneOf(UNFINISHED_STATUSES))})
          and operations.action not in (${MAY_BE_CUT_OFF}) and operations.arguments->>'snapshot_id' is null
      )`.execute(trx);
  return rows.length > 0;
}

/** Deleted branches whose time is over, or one of them if its time is; not of deleted projects, which go as a whole. */
export async function findKeptTooLong(store: Store, kept_ms: number, id?: BranchId): Promise<KeptBranch[]> {
  const { rows } = await sql<KeptBranch>`
    select branches.id, branches.project_id, branches.timeline_id
    from branches join projects on projects.id = branches.project_id
    where branches.deletion_method is not null and branches.deleted_at <= now() - ${kept_ms} * interval '1 ms'
      and projects.deleted_at is null and (${id ?? null}::text is null or branches.id = ${id ?? null})
    order by branches.deleted_at limit 100`.execute(store);
  return rows;
}

/**
 * Undoes the deletion of a branch, which does not expire from now on; its computes sleep. Belongs behind the project's lock.
 *
 * @param as_root its parent is gone for good
 */
export async function recoverBranchRow(
  trx: StoreTransaction,
  id: BranchId,
  { as_root }: { readonly as_root: boolean },
): Promise<void> {
  await sql`
    update endpoints set deleted_at = null, updated_at = now()
    where branch_id = ${id} and deleted_at = (select deleted_at from branches where id = ${id})`.execute(trx);
  await trx
    .updateTable('branches')
    .set({
      ...{ deleted_at: null, deletion_method: null, expires_at: null, ttl_interval_seconds: null },
      ...(as_root && { parent_id: null, parent_lsn: null, parent_timestamp: null }),
      updated_at: sql<Date>`now()`,
    })
    .where('id', '=', id)
    .execute();
}

/** Writes that a deleted branch comes back no more, and that its data goes. Belongs behind the project's lock. */
export async function writeBranchPurge(
  trx: StoreTransaction,
  { id, project_id, timeline_id }: KeptBranch,
): Promise<OperationRow[]> {
  await trx.updateTable('branches').set({ deletion_method: null }).where('id', '=', id).execute();
  await deleteJwksOfBranch(trx, id);
  await markTimelineDeleted(trx, timeline_id);
  return createCall(trx, project_id, [{ action: 'delete_timeline', branch_id: id, timeline_id }]);
}

/** No branch of a project comes back that was deleted before the project was. */
export async function forgetKeptBranches(trx: StoreTransaction, project_id: ProjectId): Promise<void> {
  await trx
    .updateTable('branches')
    .set({ deletion_method: null })
    .where('project_id', '=', project_id)
    .where('deletion_method', 'is not', null)
    .execute();
}
