import type { TimelineId } from '../domain/ids.ts';
import { type Lsn, parseLsn } from '../domain/lsn.ts';
import type { ComputeRef, ComputeSpec } from '../drivers/compute/contract.ts';
import type { VolumeRef } from '../drivers/storage/contract.ts';
import { consistentEnd } from '../postgres/consistent-end.ts';
import { needsQuietStart, quietChild, spareFlush } from '../postgres/first-start.ts';
import { flushLog, markArchived, replayedTo } from '../postgres/recovery.ts';
import type { OpenSession } from '../postgres/session.ts';
import { mayHoldSubscriptions } from '../postgres/subscriptions-in-log.ts';
import type { EndpointFacts } from '../store/observations.ts';
import { computeSpec, distributionOf, quietSpec } from './compute-spec.ts';
import type { EngineContext } from './context.ts';
import { readyArchive } from './history/archiving.ts';
import { discardSnapshots } from './history/snapshots.ts';
import { sessions } from './sessions.ts';
import { stopPoint } from './stop-point.ts';

const FIRST = 'first-';
const START_LOG_LINES = 100;
/** Postgres source, `SlruPhysicalReadPage`; messages are in English (`lc_messages`). */
const MISSING_STATES = /doesn't exist, reading as zeroes/;

/**
 * The first server on a timeline's volume: one that prepares it, which nobody but the engine reaches, or one that an
 * endpoint takes over when it starts. Its name is no longer than an endpoint's, since it stands in the path of a socket.
 */
export const firstServerRef = (ctx: Pick<EngineContext, 'compute'>, id: TimelineId): ComputeRef => ({
  driver: ctx.compute.name,
  id: `${FIRST}${id.replaceAll('-', '').slice(0, 24)}`,
});

export const isFirstServer = ({ id }: ComputeRef): boolean => id.startsWith(FIRST);

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
  const ref = firstServerRef(ctx, timeline.id);
  const { distribution_id } = timeline;
  const replays = replay_to !== undefined;
  const spec = quietSpec(ctx, { id: ref.id, distribution_id, data_directory, uid, replays });
  await ctx.compute.ensureRunning(spec, signal);
  stopPoint('create_branch:quiet');
  if (replay_to) await promoteAt(ctx, ref, { data_directory, replay_to, signal });
  await quietChild(sessions(ctx, ref, signal));
  await look?.(sessions(ctx, ref, signal));
  await ctx.compute.ensureStopped(ref, 'staged');
  await ctx.compute.ensureRemoved(ref);
  // What is damaged may show only when it is written out.
  await consistentEnd(data_directory);
}

/** The endpoint that starts on a timeline as soon as that is made. */
export interface NextServer {
  readonly endpoint: EndpointFacts;
  readonly replay_to: Lsn;
}

/**
 * Starts, on a volume that the log was laid into, the very server that the endpoint will have: it replays, is promoted,
 * and goes on, so that what was replayed is written out by its checkpoints, and not before anybody gets in. The endpoint
 * takes it over when it starts; nobody reaches it before.
 *
 * @returns false, with nothing begun, where a child could act as its parent before it was cleaned, which only a quiet
 *   start prevents: a distribution that runs jobs by itself, or subscriptions
 */
export async function startAsEndpoint(
  ctx: EngineContext,
  child: {
    readonly timeline: { readonly id: TimelineId };
    readonly volume: VolumeRef;
    readonly next: NextServer;
    readonly look?: (open: OpenSession) => Promise<void>;
    readonly signal: AbortSignal;
  },
): Promise<boolean> {
  const { timeline, volume, look, signal } = child;
  const { replay_to } = child.next;
  const data_directory = ctx.storage.path(volume);
  const endpoint = { ...child.next.endpoint, volume, compute: firstServerRef(ctx, timeline.id) };
  if (distributionOf(ctx, endpoint.distribution_id).has_scheduler) return false;
  // The log so far is its source's, whose archive has it.
  await allEnded([markArchived(data_directory), readyArchive(ctx, endpoint)]);
  await spareFlush(data_directory);
  const [, ref] = await allEnded([
    flushLog(data_directory),
    startAndPromote(ctx, computeSpec(ctx, endpoint), replay_to, signal),
  ]);
  if (!ref) return false;
  // Only in recovery does Postgres go on without them; others would see what was never committed, or not what was.
  const missing = (await ctx.compute.tailLog(ref, START_LOG_LINES)).find((line) => MISSING_STATES.test(line));
  if (missing) throw new Error(`the copy lacks states of transactions: ${missing}`);
  await quietChild(sessions(ctx, ref, signal));
  await look?.(sessions(ctx, ref, signal));
  return true;
}

/** As `Promise.all`, but none is under way any more when this throws: the directory may be removed then. */
async function allEnded<T extends readonly Promise<unknown>[]>(work: readonly [...T]) {
  await Promise.allSettled(work);
  return Promise.all(work);
}

/**
 * Subscriptions are looked for while the server replays, which takes as long; none acts before the promotion.
 * @returns undefined, and nothing runs any more, where there may be any
 */
async function startAndPromote(
  ctx: EngineContext,
  spec: ComputeSpec,
  replay_to: Lsn,
  signal: AbortSignal,
): Promise<ComputeRef | undefined> {
  const { data_directory } = spec;
  const [ref, acts] = await allEnded([ctx.compute.ensureRunning(spec, signal), mayHoldSubscriptions(data_directory)]);
  stopPoint('create_branch:started');
  if (acts) {
    await ctx.compute.ensureStopped(ref, 'immediate');
    await ctx.compute.ensureRemoved(ref);
    return undefined;
  }
  await promoteAt(ctx, ref, { data_directory, replay_to, signal });
  return ref;
}

/** Ends a server's replay at the end of its log, which must be the position given. */
async function promoteAt(
  ctx: EngineContext,
  ref: ComputeRef,
  { data_directory, replay_to, signal }: { data_directory: string; replay_to: Lsn; signal: AbortSignal },
): Promise<void> {
  await ctx.compute.ensurePromoted(ref, signal);
  const reached = await replayedTo(data_directory);
  // With a record missing or torn, replay ends early and the server starts all the same.
  if (parseLsn(reached) !== parseLsn(replay_to)) throw new Error(`replay ended at ${reached}, not at ${replay_to}`);
}

/** The volume stays as it is; nothing runs on it. */
export async function stopFirstServer(ctx: EngineContext, id: TimelineId): Promise<void> {
  const ref = firstServerRef(ctx, id);
  await ctx.compute.ensureStopped(ref, 'staged');
  await ctx.compute.ensureRemoved(ref);
}

/** Nothing is left of a timeline: neither the server that may prepare it nor its snapshots and its volume. */
export async function discardTimeline(ctx: EngineContext, id: TimelineId): Promise<void> {
  const ref = firstServerRef(ctx, id);
  await ctx.compute.ensureStopped(ref, 'immediate');
  await ctx.compute.ensureRemoved(ref);
  await discardSnapshots(ctx, id);
  await ctx.storage.ensureDeleted(id);
}
