import type { TimelineId } from '../domain/ids.ts';
import { type Lsn, parseLsn } from '../domain/lsn.ts';
import type { ComputeRef } from '../drivers/compute/contract.ts';
import type { VolumeRef } from '../drivers/storage/contract.ts';
import { consistentEnd } from '../postgres/consistent-end.ts';
import { needsQuietStart, quietChild, spareFlush } from '../postgres/first-start.ts';
import { replayedTo } from '../postgres/recovery.ts';
import type { OpenSession } from '../postgres/session.ts';
import { distributionOf, quietSpec } from './compute-spec.ts';
import type { EngineContext } from './context.ts';
import { discardSnapshots } from './history/snapshots.ts';
import { sessions } from './sessions.ts';
import { stopPoint } from './stop-point.ts';

/**
 * The compute that prepares a timeline; nobody but the engine reaches it. Its name is no longer than an endpoint's, since
 * it stands in the path of a socket.
 */
export const quietRef = (ctx: Pick<EngineContext, 'compute'>, id: TimelineId): ComputeRef => ({
  driver: ctx.compute.name,
  id: `quiet-${id.replaceAll('-', '').slice(0, 24)}`,
});

/** A child must not act as its parent: what could is taken from it before anybody reaches it. */
export async function prepareFirstStart(
  ctx: EngineContext,
  child: {
    readonly timeline: { readonly id: TimelineId; readonly distribution_id: string };
    readonly uid: number;
    readonly volume: VolumeRef;
    /** The log that was laid into it is replayed to here, and must reach it. */
    readonly replay_to?: Lsn;
    /** Looks into the server that was started for this, if one was. */
    readonly look?: (open: OpenSession) => Promise<void>;
    readonly signal: AbortSignal;
  },
): Promise<void> {
  const { timeline, uid, volume, replay_to, look, signal } = child;
  const data_directory = ctx.storage.path(volume);
  const { has_scheduler: hasScheduler } = distributionOf(ctx, timeline.distribution_id);
  if (!replay_to && !(await needsQuietStart(data_directory, { hasScheduler }))) return;
  await spareFlush(data_directory);
  const ref = quietRef(ctx, timeline.id);
  const { distribution_id } = timeline;
  const replays = replay_to !== undefined;
  const spec = quietSpec(ctx, { id: ref.id, distribution_id, data_directory, uid, replays });
  await ctx.compute.ensureRunning(spec, signal);
  stopPoint('create_branch:quiet');
  if (replay_to) {
    await ctx.compute.ensurePromoted(ref, signal);
    const reached = await replayedTo(data_directory);
    // With a record missing or torn, replay ends early and the server starts all the same.
    if (parseLsn(reached) !== parseLsn(replay_to)) throw new Error(`replay ended at ${reached}, not at ${replay_to}`);
  }
  await quietChild(sessions(ctx, ref, signal));
  await look?.(sessions(ctx, ref, signal));
  await ctx.compute.ensureStopped(ref, 'staged');
  await ctx.compute.ensureRemoved(ref);
  // What is damaged may show only when it is written out.
  await consistentEnd(data_directory);
}

/** Nothing is left of a timeline: neither the server that may prepare it nor its snapshots and its volume. */
export async function discardTimeline(ctx: EngineContext, id: TimelineId): Promise<void> {
  const ref = quietRef(ctx, id);
  await ctx.compute.ensureStopped(ref, 'immediate');
  await ctx.compute.ensureRemoved(ref);
  await discardSnapshots(ctx, id);
  await ctx.storage.ensureDeleted(id);
}
