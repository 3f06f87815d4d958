import type { HistoryPoint } from '../domain/history.ts';
import type { TimelineId } from '../domain/ids.ts';
import type { ComputeRef } from '../drivers/compute/contract.ts';
import type { VolumeOwner, VolumeRef } from '../drivers/storage/contract.ts';
import { CLONE_OF_RUNNING, completeClone, startBackup } from '../postgres/backup.ts';
import type { EngineContext } from './context.ts';
import { duringBackup } from './history/snapshot-work.ts';
import { sessions } from './sessions.ts';

export interface RunningClone {
  readonly source: { readonly id: TimelineId; readonly volume: VolumeRef };
  /** The server that runs on the source. */
  readonly compute: ComputeRef;
  /** Of the copy; no volume has it yet. */
  readonly id: string;
  readonly owner: VolumeOwner | undefined;
  /** Runs on the unfinished copy once it is whole: with its `backup_label`, and the log from there to its point. */
  readonly prepare?: (path: string) => Promise<void>;
  readonly signal: AbortSignal;
}

/** Copies a volume while its server goes on writing. */
export async function cloneRunning(
  ctx: EngineContext,
  { source, compute, id, owner, prepare, signal }: RunningClone,
): Promise<{ volume: VolumeRef; point: HistoryPoint }> {
  return duringBackup(ctx, source.id, async () => {
    const backup = await startBackup(sessions(ctx, compute, signal));
    try {
      let point: HistoryPoint | undefined;
      const volume = await ctx.storage.ensureCloned(source.volume, id, {
        ...CLONE_OF_RUNNING,
        owner,
        signal,
        prepare: async (path) => {
          const end = await backup.finish();
          await completeClone(ctx.storage.path(source.volume), path, end);
          await prepare?.(path);
          point = { lsn: end.stop_lsn, timestamp: end.stopped_at };
        },
      });
      if (!point) throw new Error(`volume ${id} was there before it was copied`);
      return { volume, point };
    } finally {
      await backup.abandon();
    }
  });
}
