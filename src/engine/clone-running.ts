import type { HistoryPoint } from '../domain/history.ts';
import type { TimelineId } from '../domain/ids.ts';
import type { ComputeRef } from '../drivers/compute/contract.ts';
import type { VolumeOwner, VolumeRef } from '../drivers/storage/contract.ts';
import { type Backup, CLONE_OF_RUNNING, completeClone, startBackup } from '../postgres/backup.ts';
import { startBackupWithoutCheckpoint } from '../postgres/backup-without-checkpoint.ts';
import type { EngineContext } from './context.ts';
import { bringSegment } from './history/log.ts';
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

export interface CopyOfRunning {
  readonly volume: VolumeRef;
  readonly point: HistoryPoint;
  /** No checkpoint was made for it. */
  readonly unforced: boolean;
}

/**
 * Copies a volume while its server goes on writing.
 * @param clone.forced with a checkpoint, whatever it costs the server
 */
export async function cloneRunning(
  ctx: EngineContext,
  { forced = false, ...clone }: RunningClone & { readonly forced?: boolean },
): Promise<CopyOfRunning> {
  const { source, compute, signal } = clone;
  const open = sessions(ctx, compute, signal);
  return duringBackup(ctx, source.id, async () => {
    // A copy of every byte takes so long that the log piles up meanwhile.
    if (!forced && ctx.branch_without_checkpoint && ctx.storage.capabilities.instant_clone) {
      try {
        const backup = await startBackupWithoutCheckpoint(open, ctx.storage.path(source.volume));
        if (backup) return { ...(await copyDuring(ctx, clone, backup)), unforced: true };
      } catch (error) {
        signal.throwIfAborted();
        ctx.logger.warn({ timeline_id: source.id, err: error }, 'a running server is copied with a checkpoint instead');
      }
    }
    return { ...(await copyDuring(ctx, clone, await startBackup(open))), unforced: false };
  });
}

async function copyDuring(
  ctx: EngineContext,
  { source, id, owner, prepare, signal }: RunningClone,
  backup: Backup,
): Promise<{ volume: VolumeRef; point: HistoryPoint }> {
  try {
    let point: HistoryPoint | undefined;
    const volume = await ctx.storage.ensureCloned(source.volume, id, {
      ...CLONE_OF_RUNNING,
      owner,
      signal,
      prepare: async (path) => {
        const end = await backup.finish();
        await completeClone(ctx.storage.path(source.volume), path, end, (name, directory) =>
          bringSegment(ctx, source, name, directory),
        );
        await prepare?.(path);
        point = { lsn: end.stop_lsn, timestamp: end.stopped_at };
      },
    });
    if (!point) throw new Error(`volume ${id} was there before it was copied`);
    return { volume, point };
  } finally {
    await backup.abandon();
  }
}
