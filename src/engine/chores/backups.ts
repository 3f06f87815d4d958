import {
  findBackupTimelines,
  findOpenBackupRequest,
  isBackupUnderWay,
  observeBackupProgress,
  observeBackupSnapshots,
} from '../../store/backup-requests.ts';
import type { BackupProblem, BackupRequestRow } from '../../store/schema.ts';
import { ensureSnapshotSince } from '../backup/fresh-snapshot.ts';
import type { EngineContext } from '../context.ts';
import { stopPoint } from '../stop-point.ts';

/** So many are made at once: each may be a checkpoint and a copy. */
const SLOTS = 2;

/**
 * Takes the snapshots that a backup waits for: one of each timeline that wrote anything since its last. Returns one round
 * of it, which tells whether a backup waits; whoever asks for one has it announced.
 */
export function serveBackups(ctx: EngineContext, stopping: AbortSignal): () => Promise<boolean> {
  return async () => {
    const request = await findOpenBackupRequest(ctx.store);
    // Of a backup that was killed the request is left.
    if (!request || !(await isBackupUnderWay(ctx.store))) return false;
    await serve(ctx, request, stopping);
    return true;
  };
}

async function serve(ctx: EngineContext, { id, asked_at }: BackupRequestRow, stopping: AbortSignal): Promise<void> {
  const waiting = (await findBackupTimelines(ctx.store)).filter(({ frozen }) => !frozen);
  const timelines = waiting.length;
  const problems: BackupProblem[] = [];
  let timelines_done = 0;
  await observeBackupProgress(ctx.store, id, { timelines, timelines_done });
  const takeOn = async () => {
    for (let timeline = waiting.shift(); timeline; timeline = waiting.shift()) {
      if (stopping.aborted || !(await isBackupUnderWay(ctx.store))) return;
      try {
        await ensureSnapshotSince(ctx, timeline.id, asked_at, stopping);
      } catch (error) {
        if (stopping.aborted) return;
        ctx.logger.warn({ timeline_id: timeline.id, err: error }, 'a backup gets no new snapshot of a timeline');
        problems.push({ timeline_id: timeline.id, reason: (error as Error).message });
      }
      stopPoint('backup:snapshot');
      timelines_done += 1;
      await observeBackupProgress(ctx.store, id, { timelines, timelines_done });
    }
  };
  await Promise.all(Array.from({ length: SLOTS }, takeOn));
  if (timelines_done === timelines) await observeBackupSnapshots(ctx.store, id, problems);
}
