import { type EndpointFacts, findEndpointFacts } from '../../store/observations.ts';
import { findPrimary } from '../../store/replicas.ts';
import { specHash } from '../compute-spec.ts';
import type { EngineContext } from '../context.ts';
import { reconfigureReplica } from '../replica.ts';
import { replicaHash } from '../replica-spec.ts';
import { Revert } from '../revert.ts';
import type { Outcome, RunOperation } from '../run-call.ts';
import { applyConfigTo, bringUp, isServing, reconfigure } from '../server.ts';
import { stopPoint } from '../stop-point.ts';

/**
 * The server holds the roles, databases and settings that it should. A sleeping compute is woken for roles and
 * databases; the operation that follows in the call puts it to sleep again. Settings wait for its next start. One that
 * runs for the branch that its endpoint was moved from is stopped first.
 */
export const applyConfig: RunOperation = async (ctx, operation, signal) => {
  const facts = await findEndpointFacts(ctx.store, operation.endpoint_id!);
  if (!facts || facts.deleted_at) return 'skipped';
  if (facts.type === 'read_only') return applyToReplica(ctx, facts, signal);
  // It was moved to a branch that this operation does not claim; what moves it comes after.
  if (facts.timeline_id !== operation.timeline_id) return 'skipped';
  const running = await isServing(ctx, facts, signal);
  const behind = facts.applied_config_generation < facts.config_generation;
  if (!running && !behind) return 'skipped';
  if (!running) {
    await using revert = new Revert((error) =>
      ctx.logger.error({ endpoint_id: facts.id, err: error }, 'could not undo a start'),
    );
    await bringUp(ctx, facts, { revert, signal, config: 'must' });
    revert.disarm();
    return 'finished';
  }
  stopPoint('apply_config:running');
  if (behind) await applyConfigTo(ctx, facts, facts.compute!, signal);
  if (facts.spec_hash !== specHash(ctx, facts)) await reconfigure(ctx, facts, facts.compute!);
  return 'finished';
};

/** A replica has the roles and databases that its primary has. One that sleeps hears of its settings when it starts. */
async function applyToReplica(ctx: EngineContext, facts: EndpointFacts, signal: AbortSignal): Promise<Outcome> {
  if (!(await isServing(ctx, facts, signal))) return 'skipped';
  const primary = await findPrimary(ctx.store, facts.branch_id);
  if (facts.spec_hash === replicaHash(ctx, facts, primary)) return 'skipped';
  await reconfigureReplica(ctx, facts, facts.compute!);
  return 'finished';
}
