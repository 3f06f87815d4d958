import {
  forgetDeletedBranches,
  forgetDeletedEndpoints,
  forgetDeletedSnapshots,
  forgetPurgedTimelines,
} from '../../store/forget-deleted.ts';
import { forgetOperations } from '../../store/operations.ts';
import type { EngineContext } from '../context.ts';

/** In one transaction, which nobody waits for. */
const ROWS_AT_ONCE = 5_000;
/** What is done to a thing last ends a while after its data is gone: the thing is forgotten later than that. */
const MARGIN_MS = 86_400_000;

/**
 * Forgets calls that ended longer ago than operations are kept, with their operations, and then what was deleted so long ago.
 * Tells whether there may be more.
 */
export async function forgetOldOperations(
  { store, operations_retention_ms }: Pick<EngineContext, 'store' | 'operations_retention_ms'>,
  now: Date,
): Promise<boolean> {
  if (operations_retention_ms === undefined) return false;
  const before = new Date(now.getTime() - operations_retention_ms);
  if ((await forgetOperations(store, before, ROWS_AT_ONCE)) === ROWS_AT_ONCE) return true;
  const deleted_before = new Date(before.getTime() - MARGIN_MS);
  const gone = [
    await forgetDeletedSnapshots(store, deleted_before, ROWS_AT_ONCE),
    await forgetDeletedEndpoints(store, deleted_before, ROWS_AT_ONCE),
    await store.transaction().execute((trx) => forgetDeletedBranches(trx, deleted_before, ROWS_AT_ONCE)),
    await store.transaction().execute((trx) => forgetPurgedTimelines(trx, deleted_before, ROWS_AT_ONCE)),
  ];
  return gone.some((count) => count === ROWS_AT_ONCE);
}
