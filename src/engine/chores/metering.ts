import { exceededQuota, type Quota } from '../../domain/usage.ts';
import { createCall } from '../../store/calls.ts';
import { endpointOperation, willRun } from '../../store/endpoint-operations.ts';
import { type EndpointView, findEveryEndpointOfProject } from '../../store/endpoints.ts';
import { findComputeRuns, forgetUsage, meterRun } from '../../store/metering.ts';
import { lockLiveProject } from '../../store/projects.ts';
import { findQuotaUses, type QuotaUse } from '../../store/quotas.ts';
import type { EngineContext } from '../context.ts';
import { forEach } from '../each.ts';

/** A run that nobody has looked at for longer, because no engine ran or the machine slept, is not known to have gone on. */
const GAP_MAX_MS = 60_000;

/**
 * Adds the time that computes have run, and suspends those of projects that have used up a quota. Returns one round of it,
 * which tells whether any compute runs.
 */
export function meterComputes(ctx: EngineContext): () => Promise<boolean> {
  /** By a clock that nobody sets, and that stands still while the machine sleeps. */
  let looked_at_ms: number | undefined;
  return async () => {
    const now_ms = performance.now();
    // What was missed for want of our own database was run through nevertheless.
    const most_ms = Math.max(GAP_MAX_MS, now_ms - (looked_at_ms ?? now_ms) + GAP_MAX_MS);
    const runs = (await findComputeRuns(ctx.store)).map((id) => ({ id }));
    await forEach(ctx, 'metering', runs, ({ id }) => meterRun(ctx.store, id, most_ms));
    looked_at_ms = now_ms;
    if (runs.length > 0) await suspendOverQuota(ctx);
    return runs.length > 0;
  };
}

async function suspendOverQuota(ctx: EngineContext): Promise<void> {
  const now = new Date();
  const over = (await findQuotaUses(ctx.store)).filter(({ quota, usage, logical_bytes }) =>
    exceededQuota(quota, usage, { now, logical_bytes }),
  );
  await forEach(ctx, 'quota', over, ({ id }) => suspendComputes(ctx, id));
}

/** Decides again, since the quota may just have been raised. */
async function suspendComputes(ctx: EngineContext, project_id: QuotaUse['id']): Promise<void> {
  await ctx.intent.transaction().execute(async (trx) => {
    const { settings, usage } = await lockLiveProject(trx, project_id);
    const now = new Date();
    const quotaOf = ({ logical_size_bytes }: EndpointView) =>
      exceededQuota(settings.quota as Quota | undefined, usage, { now, logical_bytes: logical_size_bytes ?? 0 });
    const stops = (await findEveryEndpointOfProject(trx, project_id)).filter(
      (endpoint) => willRun(endpoint) && quotaOf(endpoint),
    );
    for (const endpoint of stops) {
      const reason = quotaOf(endpoint)!.name;
      ctx.logger.info({ project_id, endpoint_id: endpoint.id, reason }, 'a compute is suspended: a quota is used up');
    }
    await createCall(
      trx,
      project_id,
      stops.map((endpoint) => endpointOperation('suspend_compute', endpoint)),
    );
  });
}

const MONTHS_KEPT = 13;
const HOURS_AT_ONCE = 10_000;

/** Forgets what was used before the thirteen months that are kept. Tells whether there may be more. */
export async function forgetOldUsage({ store }: Pick<EngineContext, 'store'>, now: Date): Promise<boolean> {
  const before = new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() - MONTHS_KEPT));
  return (await forgetUsage(store, before, HOURS_AT_ONCE)) === HOURS_AT_ONCE;
}
