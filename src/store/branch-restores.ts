import { type Insertable, type SqlBool, sql } from 'kysely';
import type { BranchId, ProjectId, TimelineId } from '../domain/ids.ts';
import type { Lsn } from '../domain/lsn.ts';
import { type BranchView, markBranchDeleted, moveChildren } from './branches.ts';
import type { StoreTransaction } from './connection.ts';
import type { DatabasesTable, RolesTable } from './schema.ts';
import { markTimelineDeleted } from './timelines.ts';

/**
 * A restore points a branch at a timeline that is still to be made. Until that stands the branch knows what it was, and
 * keeps its roles and databases: then either all of it changes, or all of it is as before.
 */

/** What a branch is to become. */
export interface NewRestore {
  readonly timeline_id: TimelineId;
  readonly parent_id: BranchId | null;
  /** Where in the parent's history; null: it will be known when the copy is made. */
  readonly parent_lsn: Lsn | null;
  /** The branch that keeps the state from before, its timeline included. */
  readonly preserved_branch_id: BranchId | undefined;
  readonly expires_at: Date | null;
  /** Rows for the branch: what it is to hold, and what it then does not. */
  readonly roles: readonly Insertable<RolesTable>[];
  readonly databases: readonly Insertable<DatabasesTable>[];
}

/** Writes the intent of a restore. */
export async function beginRestore(trx: StoreTransaction, before: BranchView, wanted: NewRestore): Promise<void> {
  const { id: branch_id, parent_id, parent_lsn, parent_timestamp, init_source, last_reset_at } = before;
  await trx
    .insertInto('branch_restores')
    .values({
      ...{ branch_id, parent_id, parent_lsn, parent_timestamp, init_source, last_reset_at },
      preserved_branch_id: wanted.preserved_branch_id ?? null,
      roles: rowsAsJson(wanted.roles),
      databases: rowsAsJson(wanted.databases),
    })
    .execute();
  await trx
    .updateTable('branches')
    .set({
      timeline_id: wanted.timeline_id,
      previous_timeline_id: before.timeline_id,
      parent_id: wanted.parent_id,
      parent_lsn: wanted.parent_lsn,
      parent_timestamp: null,
      init_source: 'parent-data',
      expires_at: wanted.expires_at,
      last_reset_at: sql<Date>`now()`,
      updated_at: sql<Date>`now()`,
    })
    .where('id', '=', branch_id)
    .execute();
  await announceEndpoints(trx, branch_id);
}

/** What a restore is about: columns of the operation that makes its timeline. */
export interface RestoreSubject {
  readonly project_id: ProjectId;
  readonly branch_id: BranchId | null;
  readonly timeline_id: TimelineId | null;
}

/**
 * The timeline of a restore stands: the branch takes over the roles and databases that go with it, and what it was is
 * given up unless another branch keeps it. Nothing happens when the branch is not being restored to that timeline.
 *
 * @returns whether it was
 */
export async function finishRestore(trx: StoreTransaction, subject: RestoreSubject): Promise<boolean> {
  const restore = await lockRestore(trx, subject);
  if (!restore) return false;
  const { branch_id, preserved_branch_id, previous_timeline_id } = restore;
  for (const table of ['roles', 'databases'] as const) {
    await trx.deleteFrom(table).where('branch_id', '=', branch_id).execute();
  }
  await sql`
    insert into roles (branch_id, name, origin, can_login, verifier, sealed_password, valid_until, created_at, updated_at,
      deleted_at, applied_verifier)
    select branch_id, name, origin, can_login, verifier, sealed_password, valid_until, created_at, updated_at,
      deleted_at, applied_verifier
    from jsonb_populate_recordset(null::roles, (select roles from branch_restores where branch_id = ${branch_id}))
    `.execute(trx);
  await sql`
    insert into databases (branch_id, name, owner_name, origin, created_at, updated_at, deleted_at, applied_name,
      applied_owner_name)
    select branch_id, name, owner_name, origin, created_at, updated_at, deleted_at, applied_name, applied_owner_name
    from jsonb_populate_recordset(null::databases, (select databases from branch_restores where branch_id = ${branch_id}))
    `.execute(trx);
  await trx
    .updateTable('branches')
    .set((eb) => ({ previous_timeline_id: null, config_generation: eb('config_generation', '+', 1) }))
    .where('id', '=', branch_id)
    .execute();
  if (!preserved_branch_id) await markTimelineDeleted(trx, previous_timeline_id);
  await endRestore(trx, branch_id);
  return true;
}

/**
 * The timeline of a restore could not be made: the branch is what it was, with its children, and the branch that was to
 * keep that is gone. Nothing happens when the branch is not being restored to that timeline.
 *
 * @returns whether it was
 */
export async function abandonRestore(trx: StoreTransaction, subject: RestoreSubject): Promise<boolean> {
  const restore = await lockRestore(trx, subject);
  if (!restore) return false;
  const { branch_id, preserved_branch_id } = restore;
  await sql`
    update branches set timeline_id = previous_timeline_id, previous_timeline_id = null, parent_id = before.parent_id,
      parent_lsn = before.parent_lsn, parent_timestamp = before.parent_timestamp, init_source = before.init_source,
      last_reset_at = before.last_reset_at, updated_at = now()
    from branch_restores before where before.branch_id = branches.id and branches.id = ${branch_id}`.execute(trx);
  if (preserved_branch_id) {
    await moveChildren(trx, preserved_branch_id, branch_id);
    await markBranchDeleted(trx, preserved_branch_id);
  }
  await markTimelineDeleted(trx, subject.timeline_id!);
  await endRestore(trx, branch_id);
  return true;
}

/**
 * Forgets the restore of a branch that is being deleted.
 *
 * @returns the timeline that it had before, and whether a branch keeps that; undefined when it was not being restored
 */
export async function dropRestore(
  trx: StoreTransaction,
  subject: RestoreSubject,
): Promise<{ timeline_id: TimelineId; kept: boolean } | undefined> {
  const restore = await lockRestore(trx, subject);
  if (!restore) return undefined;
  await trx.updateTable('branches').set({ previous_timeline_id: null }).where('id', '=', restore.branch_id).execute();
  if (!restore.preserved_branch_id) await markTimelineDeleted(trx, restore.previous_timeline_id);
  await endRestore(trx, restore.branch_id);
  return { timeline_id: restore.previous_timeline_id, kept: restore.preserved_branch_id !== null };
}

/** The unfinished restore of a branch to a timeline, if there is one; nobody ends or begins one meanwhile. */
async function lockRestore(trx: StoreTransaction, { project_id, branch_id, timeline_id }: RestoreSubject) {
  await sql`select from projects where id = ${project_id} for no key update`.execute(trx);
  return trx
    .selectFrom('branch_restores')
    .innerJoin('branches', 'branches.id', 'branch_restores.branch_id')
    .select(['branches.id as branch_id', 'branch_restores.preserved_branch_id'])
    .select(sql<TimelineId>`branches.previous_timeline_id`.as('previous_timeline_id'))
    .where('branches.id', '=', branch_id)
    .where('branches.timeline_id', '=', timeline_id)
    .where('branches.previous_timeline_id', 'is not', null)
    .where('branches.deleted_at', 'is', null)
    .forUpdate('branches')
    .executeTakeFirst();
}

async function endRestore(trx: StoreTransaction, branch_id: BranchId): Promise<void> {
  await trx.deleteFrom('branch_restores').where('branch_id', '=', branch_id).execute();
  await announceEndpoints(trx, branch_id);
}

/** Whether a running server is that of its branch may be otherwise from now on: whoever remembers looks again. */
async function announceEndpoints(trx: StoreTransaction, branch_id: BranchId): Promise<void> {
  await trx
    .updateTable('endpoints')
    .set((eb) => ({ updated_at: eb.ref('updated_at') }))
    .where('branch_id', '=', branch_id)
    .where(sql<SqlBool>`deleted_at is null`)
    .execute();
}

/** As `jsonb_populate_recordset` reads it: bytes as Postgres prints them. */
const rowsAsJson = (rows: readonly object[]): string =>
  JSON.stringify(
    rows.map((row) =>
      Object.fromEntries(
        Object.entries(row).map(([name, value]) => [
          name,
          Buffer.isBuffer(value) ? `\\x${value.toString('hex')}` : value,
        ]),
      ),
    ),
  );
