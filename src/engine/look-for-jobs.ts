import { notifyPollers } from '../store/workers.ts';
import type { EngineContext } from './context.ts';

/** The queue compares with the database's clock, whose answer takes a moment. */
const AFTER_MS = 10;

/**
 * Has the job queue look when a job that waits for its time is due. The queue's own polling is rare, since each look of
 * an idle Coppice costs; it is there for what was to be looked for by a process that is gone.
 */
export function lookForJobsAt(ctx: EngineContext, due: Date): void {
  const look = () => void notifyPollers(ctx.store).catch(() => undefined);
  setTimeout(look, Math.max(0, due.getTime() - Date.now()) + AFTER_MS).unref();
}
