import { findEndpointFacts } from '../../store/observations.ts';
import { bringUpReplica } from '../replica.ts';
import { Revert } from '../revert.ts';
import type { RunOperation } from '../run-call.ts';
import { bringUp } from '../server.ts';

/** The endpoint's server runs, holds the roles and databases that it should, and is open to the gateway. */
export const startCompute: RunOperation = async (ctx, operation, signal) => {
  const facts = await findEndpointFacts(ctx.store, operation.endpoint_id!);
  if (!facts || facts.deleted_at || facts.disabled) return 'skipped';
  // It was moved to a branch that this operation does not claim, which may be being copied; what moves it comes after.
  const holds_timeline = facts.timeline_id === operation.timeline_id;
  if (facts.type === 'read_write' && !holds_timeline) return 'skipped';
  await using revert = new Revert((error) =>
    ctx.logger.error({ endpoint_id: facts.id, err: error }, 'could not undo a start'),
  );
  if (facts.type === 'read_only') await bringUpReplica(ctx, facts, { revert, signal, holds_timeline });
  else await bringUp(ctx, facts, { revert, signal, config: 'should' });
  revert.disarm();
  return 'finished';
};
