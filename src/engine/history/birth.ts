import { CoppiceError } from '../../domain/errors.ts';
import type { Lsn } from '../../domain/lsn.ts';
import type { VolumeRef } from '../../drivers/storage/contract.ts';
import { consistentEnd } from '../../postgres/consistent-end.ts';
import type { ProjectRow, TimelineRow } from '../../store/schema.ts';
import { findReadySnapshots } from '../../store/timeline-snapshots.ts';
import type { EngineContext } from '../context.ts';
import { copyStopped, takeSnapshot } from './snapshots.ts';

/** Where a timeline begins: nothing before it can be asked for. */
export interface Birth {
  readonly lsn: Lsn;
  readonly at: Date;
}

/**
 * Keeps a new timeline's volume as it is before anybody writes to it: the floor of its history. Without a window nothing
 * is kept. Where the storage is nearly full, the next snapshot becomes the floor. Safe to run twice.
 */
export async function takeBirthSnapshot(
  ctx: EngineContext,
  made: {
    readonly timeline: TimelineRow;
    readonly project: ProjectRow;
    /** Finished; its server, if it had one, stopped cleanly. */
    readonly volume: VolumeRef;
    readonly signal: AbortSignal;
  },
): Promise<Birth> {
  const { timeline, project, volume, signal } = made;
  const birth = { lsn: await consistentEnd(ctx.storage.path(volume)), at: new Date() };
  const retention_seconds = project.applied_history_retention_seconds ?? project.history_retention_seconds;
  if (retention_seconds === 0 || (await findReadySnapshots(ctx.store, timeline.id)).length > 0) return birth;
  try {
    await takeSnapshot(ctx, {
      timeline_id: timeline.id,
      kind: 'birth',
      // The timeline is said to be ready right after, durably; until then it is made anew, snapshot and all.
      store: ctx.store,
      copy: async (id) => ({
        volume: await copyStopped(ctx, volume, id, signal),
        point: { lsn: birth.lsn, timestamp: birth.at },
      }),
    });
  } catch (error) {
    if (!(error instanceof CoppiceError) || error.kind !== 'storage_full') throw error;
    ctx.logger.warn({ timeline_id: timeline.id, err: error }, 'a timeline begins without a snapshot');
  }
  return birth;
}
