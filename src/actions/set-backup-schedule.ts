import { type BackupTime, backupTimeProblem } from '../domain/backup-schedule.ts';
import { CoppiceError } from '../domain/errors.ts';
import type { BranchId } from '../domain/ids.ts';
import { listBackupSchedule, replaceBackupSchedule } from '../store/backup-schedules.ts';
import { lockLiveProject } from '../store/projects.ts';
import { type AccessibleProject, findBranchOf } from './access.ts';
import type { ActionContext } from './context.ts';

/** One line of a schedule; fields as in the API. */
export interface BackupScheduleItem extends BackupTime {
  /** How long each snapshot is kept; without it until it is deleted. */
  readonly retention_seconds?: number;
}

/** Replaces a root branch's schedule of snapshots; an empty one turns it off. A line that stays is not served anew. */
export function setBackupSchedule(
  context: ActionContext,
  project: AccessibleProject,
  branch_id: BranchId,
  schedule: readonly BackupScheduleItem[],
): Promise<void> {
  const keys = schedule.map(timeKey);
  for (const [index, item] of schedule.entries()) {
    const problem = backupTimeProblem(item) ?? (keys.indexOf(keys[index]!) < index ? 'is there twice' : undefined);
    if (problem) throw new CoppiceError('invalid_request', { field: `schedule.${index}`, problem });
  }
  return context.store.transaction().execute(async (trx) => {
    await lockLiveProject(trx, project.id);
    const { parent_id } = await findBranchOf(trx, project, branch_id);
    if (parent_id && schedule.length > 0) {
      throw new CoppiceError('branch_not_root', { verb: 'have a backup schedule', id: branch_id, parent_id });
    }
    const before = new Map((await listBackupSchedule(trx, branch_id)).map((row) => [timeKey(row), row]));
    const lines = schedule.map(({ frequency, hour, day, month, retention_seconds }) => {
      const same = before.get(timeKey({ frequency, hour, day, month }));
      const served = same && { created_at: same.created_at, last_due_at: same.last_due_at };
      return { ...{ frequency, hour, day, month, retention_seconds }, ...served };
    });
    await replaceBackupSchedule(trx, branch_id, lines);
  });
}

const timeKey = ({ frequency, hour, day, month }: BackupTime): string =>
  [frequency, hour ?? '', day ?? '', month ?? ''].join(' ');
