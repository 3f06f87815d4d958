import { lastDueTime } from '../../domain/backup-schedule.ts';
import { LIMITS } from '../../domain/limits.ts';
import { findLiveSchedules, type LiveSchedule, markScheduleServed } from '../../store/backup-schedules.ts';
import { findBranch } from '../../store/branches.ts';
import { lockLiveProject } from '../../store/projects.ts';
import { writeSnapshot } from '../../store/snapshot-intent.ts';
import { countSnapshots } from '../../store/snapshots.ts';
import { findFullPool } from '../../store/storage-pools.ts';
import type { EngineContext } from '../context.ts';
import { forEach } from '../each.ts';

/**
 * Makes the snapshots that schedules ask for, each due time once, whatever the clock does. Of several that were missed
 * while Coppice was down, the newest alone is made. Tells whether there is any schedule.
 */
export async function makeDueSnapshots(ctx: EngineContext, now: Date): Promise<boolean> {
  const lines = (await findLiveSchedules(ctx.store)).map((line) => ({ ...line, id: String(line.id), number: line.id }));
  const due = lines.filter((line) => lastDueTime(line, now) > (line.last_due_at ?? line.created_at));
  // Tried again at the next round, until there is room.
  if (due.length > 0 && !(await findFullPool(ctx.store))) {
    await forEach(ctx, 'schedules', due, (line) => serve(ctx, { ...line, id: line.number }, now));
  }
  return lines.length > 0;
}

async function serve(ctx: EngineContext, line: LiveSchedule, now: Date): Promise<void> {
  const due = lastDueTime(line, now);
  const full = await ctx.intent.transaction().execute(async (trx) => {
    await lockLiveProject(trx, line.project_id);
    const branch = await findBranch(trx, line.branch_id);
    // One that is being restored is served when that is done.
    if (!branch?.ready_at || !(await markScheduleServed(trx, line.id, due))) return false;
    if ((await countSnapshots(trx, line.project_id)) >= LIMITS.snapshots_per_project) return true;
    const { frequency, retention_seconds } = line;
    await writeSnapshot(trx, branch, {
      name: `${[...branch.name].slice(0, 200).join('')} ${frequency} ${due.toISOString().slice(0, 19)}Z`,
      manual: false,
      created_by: null,
      expires_at: retention_seconds === null ? null : new Date(now.getTime() + retention_seconds * 1000),
    });
    return false;
  });
  if (!full) return;
  const fields = { project_id: line.project_id, branch_id: line.branch_id };
  ctx.logger.warn(fields, 'a scheduled snapshot was not made, since its project has as many as it may');
}
