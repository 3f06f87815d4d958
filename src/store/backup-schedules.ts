import { type Insertable, sql } from 'kysely';
import type { BranchId } from '../domain/ids.ts';
import type { Store, StoreTransaction } from './connection.ts';
import type { BackupScheduleRow, BackupSchedulesTable } from './schema.ts';

/** The lines of a branch's schedule, in the order in which they were given. */
export function listBackupSchedule(store: Store, branch_id: BranchId): Promise<BackupScheduleRow[]> {
  return store.selectFrom('backup_schedules').selectAll().where('branch_id', '=', branch_id).orderBy('id').execute();
}

/** Makes these the lines of a branch's schedule, instead of those that it had. */
export async function replaceBackupSchedule(
  trx: StoreTransaction,
  branch_id: BranchId,
  lines: readonly Omit<Insertable<BackupSchedulesTable>, 'branch_id' | 'id'>[],
): Promise<void> {
  await trx.deleteFrom('backup_schedules').where('branch_id', '=', branch_id).execute();
  if (lines.length === 0) return;
  await trx
    .insertInto('backup_schedules')
    .values(lines.map((line) => ({ ...line, branch_id })))
    .execute();
}

/** Another branch has the schedule from now on. */
export async function moveBackupSchedule(trx: StoreTransaction, from: BranchId, to: BranchId): Promise<void> {
  await trx.deleteFrom('backup_schedules').where('branch_id', '=', to).execute();
  await trx.updateTable('backup_schedules').set({ branch_id: to }).where('branch_id', '=', from).execute();
}

/** A line of the schedule of a branch that lives. */
export type LiveSchedule = BackupScheduleRow & { readonly project_id: string };

/** All lines of all living branches. */
export async function findLiveSchedules(store: Store): Promise<LiveSchedule[]> {
  const { rows } = await sql<LiveSchedule>`
    select backup_schedules.*, branches.project_id
    from backup_schedules join branches on branches.id = backup_schedules.branch_id
    where branches.deleted_at is null
    order by backup_schedules.id`.execute(store);
  return rows;
}

/** Says that a due time is served. False when it was already, or the line is gone. */
export async function markScheduleServed(trx: StoreTransaction, id: number, due: Date): Promise<boolean> {
  const { numUpdatedRows } = await trx
    .updateTable('backup_schedules')
    .set({ last_due_at: due })
    .where('id', '=', id)
    .where((eb) => eb(eb.fn.coalesce('last_due_at', 'created_at'), '<', due))
    .executeTakeFirst();
  return numUpdatedRows > 0n;
}
