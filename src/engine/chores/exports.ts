import { deleteExport, type ExportTask, findExports, observeExport } from '../../store/exports.ts';
import { findTimeline } from '../../store/observations.ts';
import type { EngineContext } from '../context.ts';
import { forEach } from '../each.ts';
import { makeExportBase } from '../export/base.ts';
import { findRunningServer } from '../running-server.ts';
import { stopPoint } from '../stop-point.ts';

/** A server may go to sleep, or be restarted, while it is copied. */
const ATTEMPTS_MAX = 4;
const MAKE_TIMEOUT_MS = 3_600_000;

/**
 * Makes the bases that exports wait for, one at a time, and removes those that nobody reads any more. Returns one round of
 * it, which tells whether there is any.
 */
export function serveExports(ctx: EngineContext, stopping: AbortSignal): () => Promise<boolean> {
  const attempts = new Map<string, number>();
  return async () => {
    const tasks = await findExports(ctx.store);
    for (const id of attempts.keys()) if (!tasks.some((task) => task.id === id)) attempts.delete(id);
    await forEach(
      ctx,
      'exports',
      tasks.filter(({ held }) => !held),
      ({ id }) => remove(ctx, id),
    );
    const next = tasks.find(({ held, base, error }) => held && !base && error === null);
    if (next && !stopping.aborted) await serve(ctx, next, { attempts, stopping });
    return tasks.length > 0;
  };
}

async function remove(ctx: EngineContext, id: string): Promise<void> {
  await ctx.storage.ensureDeleted(id);
  stopPoint('export:removed');
  await deleteExport(ctx.store, id);
}

async function serve(
  ctx: EngineContext,
  task: ExportTask,
  { attempts, stopping }: { readonly attempts: Map<string, number>; readonly stopping: AbortSignal },
): Promise<void> {
  const { id, timeline_id, pg_settings } = task;
  if (task.branch_deleted_at) return observeExport(ctx.store, id, { error: 'the branch was deleted' });
  const timeline = await findTimeline(ctx.store, timeline_id);
  const compute = await findRunningServer(ctx, timeline_id);
  // Whoever asked wakes it.
  if (!timeline?.volume || !compute) return;
  const { volume } = timeline;
  await observeExport(ctx.store, id, { begun_at: new Date() });
  try {
    const signal = AbortSignal.any([stopping, AbortSignal.timeout(MAKE_TIMEOUT_MS)]);
    const wanted = { id, timeline: { ...timeline, volume }, compute, pg_settings: pg_settings ?? {}, signal };
    const base = await makeExportBase(ctx, wanted);
    stopPoint('export:copied');
    await observeExport(ctx.store, id, { base });
  } catch (error) {
    if (stopping.aborted) return;
    const failures = (attempts.get(id) ?? 0) + 1;
    attempts.set(id, failures);
    ctx.logger.warn({ timeline_id, subject: id, err: error }, 'a branch could not be copied for an export');
    if (failures >= ATTEMPTS_MAX) await observeExport(ctx.store, id, { error: (error as Error).message });
  }
}
