import type pg from 'pg';
import type { Change } from '../store/changes.ts';
import { createCancellations } from './cancellations.ts';
import { adoptComputes } from './chores/adopt.ts';
import { archiveUnused, removeUnneeded } from './chores/archive-branches.ts';
import { checkArchives, takeInAll, takeInRunning, tendArchives } from './chores/archives.ts';
import { forgetOldEntries } from './chores/audit-log.ts';
import { availability } from './chores/availability.ts';
import { serveBackups } from './chores/backups.ts';
import { detachUnused } from './chores/detach-projects.ts';
import { removeEphemeralBranches } from './chores/ephemeral.ts';
import { deleteExpired } from './chores/expiry.ts';
import { serveExports } from './chores/exports.ts';
import { followPrimaries } from './chores/follow-primaries.ts';
import { forgetOld } from './chores/forget.ts';
import { forgetOldOperations } from './chores/forget-operations.ts';
import { idleSuspend } from './chores/idle-suspend.ts';
import { removeLeftovers } from './chores/leftovers.ts';
import { forgetOldUsage, meterComputes } from './chores/metering.ts';
import { makeDueSnapshots } from './chores/schedules.ts';
import { sendWebhooks } from './chores/send-webhooks.ts';
import { shipLog } from './chores/ship-log.ts';
import { measureVolumes, watchPool } from './chores/sizes.ts';
import { snapshotRunning, thinSnapshots } from './chores/snapshots.ts';
import type { EngineContext } from './context.ts';
import { startDispatcher } from './dispatcher.ts';
import { interruptSnapshots } from './history/snapshot-work.ts';
import { removeUnsettledSnapshots } from './history/snapshots.ts';
import { type Loop, startLoop } from './loop.ts';
import { applyConfig } from './operations/apply-config.ts';
import { applySchemaFromBranch } from './operations/apply-schema-from-branch.ts';
import { applyStorageConfig } from './operations/apply-storage-config.ts';
import { createBranch } from './operations/create-branch.ts';
import { createTimeline } from './operations/create-timeline.ts';
import { deleteTenant } from './operations/delete-tenant.ts';
import { deleteTimeline } from './operations/delete-timeline.ts';
import { importData } from './operations/import-data.ts';
import { startCompute } from './operations/start-compute.ts';
import { suspendCompute } from './operations/suspend-compute.ts';
import { tenantDetach } from './operations/tenant-detach.ts';
import { tenantReattach } from './operations/tenant-reattach.ts';
import { timelineArchive } from './operations/timeline-archive.ts';
import { timelineUnarchive } from './operations/timeline-unarchive.ts';
import type { OperationRunners } from './run-call.ts';

const RUNNERS: OperationRunners = {
  create_timeline: createTimeline,
  create_branch: createBranch,
  start_compute: startCompute,
  suspend_compute: suspendCompute,
  apply_config: applyConfig,
  apply_schema_from_branch: applySchemaFromBranch,
  import_data: importData,
  apply_storage_config: applyStorageConfig,
  timeline_archive: timelineArchive,
  timeline_unarchive: timelineUnarchive,
  tenant_detach: tenantDetach,
  tenant_reattach: tenantReattach,
  delete_timeline: deleteTimeline,
  delete_tenant: deleteTenant,
};

export interface Engine {
  /** Hears of changes in the store. */
  hear(change: Change): void;
  /** Takes nothing new, and waits for what runs. */
  stop(): Promise<void>;
}

/** Starts the engine of one data directory: takes over what runs, then runs operations and chores. */
export async function startEngine(
  ctx: EngineContext,
  { pool, data_directory_id }: { pool: pg.Pool; data_directory_id: string },
): Promise<Engine> {
  const { logger } = ctx;
  await watchPool(ctx);
  await adoptComputes(ctx);
  await removeUnsettledSnapshots(ctx);
  const cancellations = createCancellations(ctx.store);
  const dispatcher = await startDispatcher(ctx, pool, { runners: RUNNERS, cancellations, data_directory_id });
  const lookForCrashes = availability(ctx);
  const forget = ctx.compute.onExit(() => void lookForCrashes().catch(() => undefined));
  const stopping = new AbortController();
  const webhooks = startLoop({ name: 'webhooks', interval_ms: 100, logger }, sendWebhooks(ctx, stopping.signal));
  const loops = [
    startLoop({ name: 'idle_suspend', interval_ms: 1_000, logger }, idleSuspend(ctx, stopping.signal)),
    startLoop({ name: 'metering', interval_ms: 10_000, rest_ms: 600_000, logger }, meterComputes(ctx)),
    startLoop({ name: 'availability', interval_ms: 10_000, logger }, lookForCrashes),
    startLoop({ name: 'follow_primaries', interval_ms: 2_000, logger }, followPrimaries(ctx, stopping.signal)),
    startLoop({ name: 'pool', interval_ms: 15_000, logger }, () => watchPool(ctx)),
    startLoop({ name: 'sizes', interval_ms: 15_000, logger }, () => measureVolumes(ctx)),
    startLoop({ name: 'snapshots', interval_ms: 5_000, logger }, snapshotRunning(ctx, stopping.signal)),
    startLoop({ name: 'thinning', interval_ms: 60_000, logger }, () => thinSnapshots(ctx)),
    startLoop({ name: 'backups', interval_ms: 500, logger }, serveBackups(ctx, stopping.signal)),
    startLoop({ name: 'exports', interval_ms: 500, logger }, serveExports(ctx, stopping.signal)),
    startLoop({ name: 'schedules', interval_ms: 5_000, logger }, () => makeDueSnapshots(ctx, new Date())),
    startLoop({ name: 'expiry', interval_ms: 5_000, logger }, () => deleteExpired(ctx, new Date())),
    startLoop({ name: 'ephemeral', interval_ms: 2_000, logger }, () => removeEphemeralBranches(ctx)),
    startLoop({ name: 'archive', interval_ms: 2_000, logger }, takeInRunning(ctx, stopping.signal)),
    startLoop({ name: 'archive_all', interval_ms: 2_000, logger }, takeInAll(ctx, stopping.signal)),
    startLoop({ name: 'retention', interval_ms: 15_000, logger }, tendArchives(ctx)),
    startLoop(
      { name: 'archive_check', interval_ms: 1_000, rest_ms: Math.min(30_000, ctx.archive_check_interval_ms), logger },
      checkArchives(ctx),
    ),
    startLoop({ name: 'archive_branches', interval_ms: lookIntervalMs(ctx.archive_branches.after_ms), logger }, () =>
      archiveUnused(ctx, new Date()),
    ),
    startLoop({ name: 'detach_projects', interval_ms: lookIntervalMs(ctx.detach_projects_after_ms), logger }, () =>
      detachUnused(ctx, new Date()),
    ),
    startLoop({ name: 'stored', interval_ms: 15_000, logger }, () => removeUnneeded(ctx)),
    ...forgettingLoops(ctx),
    ...shippingLoops(ctx),
    startLoop({ name: 'leftovers', interval_ms: 30_000, logger }, () => removeLeftovers(ctx)),
  ];
  return {
    hear: ({ noun, id }) => {
      // They tell nobody else of what is not announced by itself.
      if (noun === 'event' || noun === 'delivery') return webhooks.hear();
      if (noun === 'operation') cancellations.hear(id);
      for (const loop of loops) loop.hear();
    },
    stop: async () => {
      forget();
      stopping.abort(new Error('Coppice stops'));
      await Promise.all([...loops, webhooks].map((loop) => loop.stop()));
      await interruptSnapshots(ctx);
      await dispatcher.stop();
    },
  };
}

/** A branch is archived, or a project detached, at most a quarter of the time too late, or a minute. */
const lookIntervalMs = (after_ms = 60_000): number => Math.min(60_000, Math.max(1_000, after_ms / 4));

/** What is kept for a while only: looked at once an hour, or every minute where much comes. */
function forgettingLoops(ctx: EngineContext): Loop[] {
  const { logger } = ctx;
  const rarely = { interval_ms: 600_000, rest_ms: 3_600_000, logger };
  return [
    startLoop({ name: 'forget', interval_ms: 60_000, logger }, () => forgetOld(ctx, new Date())),
    startLoop({ name: 'audit_log', ...rarely }, () => forgetOldEntries(ctx, new Date())),
    startLoop({ name: 'usage', ...rarely }, () => forgetOldUsage(ctx, new Date())),
    startLoop({ name: 'forget_operations', ...rarely }, () => forgetOldOperations(ctx, new Date())),
  ];
}

/** None where there is no object storage. */
function shippingLoops(ctx: EngineContext): Loop[] {
  const shipping = shipLog(ctx);
  if (!shipping) return [];
  const { logger } = ctx;
  return [
    startLoop(
      { name: 'ship_log', interval_ms: shipping.ship_every_ms, rest_ms: shipping.rest_ms, logger },
      shipping.ship,
    ),
    startLoop({ name: 'free_log', interval_ms: shipping.free_every_ms, logger }, shipping.free),
  ];
}
