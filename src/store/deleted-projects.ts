import { type SqlBool, sql } from 'kysely';
import type { OrganizationId, ProjectId } from '../domain/ids.ts';
import type { Store, StoreTransaction } from './connection.ts';
import { forgetKeptBranches } from './deleted-branches.ts';
import { nameOrIdHas } from './name-search.ts';
import type { ProjectListOptions, ProjectView } from './projects.ts';
import type { ProjectRow } from './schema.ts';
import { PROJECT_USAGE } from './usage-view.ts';

/**
 * Projects that were deleted and are kept for a while: what was deleted with a project has its very time of deletion, and the
 * timelines are as they were. Once there is a `delete_tenant`, nothing comes back.
 */

const notBeingPurged = sql<SqlBool>`purged_at is null and not exists (
  select from operations where operations.project_id = projects.id and operations.action = 'delete_tenant'
)`;

/** The organisation's projects that were deleted after `since` and can come back, newest first. */
export function listRecoverableProjects(
  store: Store,
  organization_id: OrganizationId,
  { search = '', cursor, limit }: ProjectListOptions,
  since: Date,
): Promise<ProjectView[]> {
  return store
    .selectFrom('projects')
    .selectAll()
    .select(PROJECT_USAGE.as('usage'))
    .where('organization_id', '=', organization_id)
    .where('deleted_at', '>', since)
    .where(notBeingPurged)
    .$if(search !== '', (query) => query.where(nameOrIdHas('projects', search)))
    .$if(cursor !== undefined, (query) =>
      query.where(sql<SqlBool>`(created_at, id) < (select created_at, id from projects where id = ${cursor})`),
    )
    .orderBy('created_at', 'desc')
    .orderBy('id', 'desc')
    .limit(limit)
    .execute();
}

/** Locks a project that is there, or that is deleted and can come back. */
export function lockProjectEvenDeleted(trx: StoreTransaction, id: ProjectId): Promise<ProjectView | undefined> {
  return trx
    .selectFrom('projects')
    .selectAll()
    .select(PROJECT_USAGE.as('usage'))
    .where('id', '=', id)
    .where(notBeingPurged)
    .forNoKeyUpdate()
    .executeTakeFirst();
}

/** Locks a project if it is deleted and not purged. */
export async function lockDeletedProject(trx: StoreTransaction, id: ProjectId): Promise<boolean> {
  const { rows } = await sql`
    select from projects where id = ${id} and deleted_at is not null and purged_at is null for no key update`.execute(
    trx,
  );
  return rows.length > 0;
}

/** Whether a project could come back as it was: it was finished, and no restore is half done. */
export async function isWhole(trx: StoreTransaction, id: ProjectId): Promise<boolean> {
  const { rows } = await sql<{ whole: boolean }>`
    select not exists (
      select from branch_restores join branches on branches.id = branch_restores.branch_id where branches.project_id = ${id}
    ) and exists (
      select from branches join timelines on timelines.id = branches.timeline_id
      where branches.project_id = ${id} and branches.is_default and branches.deleted_at is null and timelines.ready_at is not null
    ) as whole`.execute(trx);
  return rows[0]!.whole;
}

/** Undoes the deletion of a project. What was still being made, and copies for clients who look into the past, go for good. */
export async function recoverProjectRow(trx: StoreTransaction, id: ProjectId): Promise<ProjectRow> {
  const deletedWithIt = sql`project_id = ${id} and deleted_at = (select deleted_at from projects where id = ${id})`;
  await sql`
    update timelines set deleted_at = now() where project_id = ${id} and deleted_at is null and (
      ready_at is null or id in (select timeline_id from branches where ${deletedWithIt} and ephemeral_of is not null)
    )`.execute(trx);
  for (const table of ['branches', 'snapshots'] as const) {
    await sql`
      update ${sql.table(table)} set deleted_at = null where ${deletedWithIt}
        and timeline_id in (select id from timelines where project_id = ${id} and deleted_at is null)`.execute(trx);
  }
  await sql`
    update endpoints set deleted_at = null where ${deletedWithIt}
      and branch_id in (select id from branches where project_id = ${id} and deleted_at is null)`.execute(trx);
  return trx
    .updateTable('projects')
    .set({ deleted_at: null, updated_at: sql<Date>`now()` })
    .where('id', '=', id)
    .returningAll()
    .executeTakeFirstOrThrow();
}

/** Says that nothing of a deleted project is needed any more. */
export async function giveUpTimelines(trx: StoreTransaction, id: ProjectId): Promise<void> {
  await forgetKeptBranches(trx, id);
  await trx
    .updateTable('timelines')
    .set({ deleted_at: sql<Date>`now()` })
    .where('project_id', '=', id)
    .where('deleted_at', 'is', null)
    .execute();
}
