import { parseLsn } from '../../domain/lsn.ts';
import { ArchiveError } from '../../drivers/archive/contract.ts';
import { ensureReplicationRole } from '../../postgres/replication-role.ts';
import { readFlushedLsn, readStandbyProgress, type StandbyProgress } from '../../postgres/standby.ts';
import { createCall } from '../../store/calls.ts';
import { type EndpointFacts, findEndpointFacts, findTimeline } from '../../store/observations.ts';
import { findPrimary, observeReplicaLag, observeReplicaVolume } from '../../store/replicas.ts';
import type { TimelineRow } from '../../store/schema.ts';
import { findWatchedEndpoints, lockSettledEndpoint, type WatchedEndpoint } from '../../store/watched.ts';
import type { EngineContext } from '../context.ts';
import { type PrimaryState, primaryState } from '../primary-state.ts';
import { type LogAtHand, layReplicaLog, logOfRunning, logOfStopped } from '../replica-log.ts';
import { replicaHash, replicationPassword } from '../replica-spec.ts';
import { sessions } from '../sessions.ts';

const CONCURRENT_LOOKS = 4;
/** A replica that does not answer for so long is hung, */
const LOOK_TIMEOUT_MS = 5_000;
/** and is looked at again after so long. */
const HUNG_PAUSE_MS = 30_000;
/** One that was given a piece of log is given the same again after so long. */
const LAY_AGAIN_MS = 30_000;
/** A replica that is further behind is worth a line in the log. */
const LAG_WARNING_SECONDS = 60;

/** What is remembered of a running replica between two looks. */
interface Followed {
  readonly started_at: number;
  hung_until: number;
  /** At the last look it did not receive, though its primary ran. */
  parted: boolean;
  laid: { readonly to: bigint; readonly at: number } | undefined;
  lagging: boolean;
}

/** How far a replica's primary has come, and what of its log lies in files. */
interface Ahead {
  readonly lsn: bigint;
  readonly log: LogAtHand;
}

/**
 * Sees to read replicas that run: notes how far they are behind, gives those that receive nothing the log that lies in
 * files, and restarts one whose primary has outgrown it. Returns one round, which tells whether there is any; call it again and again.
 */
export function followPrimaries(ctx: EngineContext, stopping: AbortSignal): () => Promise<boolean> {
  const followed = new Map<string, Followed>();
  const lookAt = async (endpoint: WatchedEndpoint) => {
    const started_at = endpoint.started_at.getTime();
    const known = followed.get(endpoint.id);
    const state =
      known?.started_at === started_at
        ? known
        : { started_at, hung_until: 0, parted: false, laid: undefined, lagging: false };
    followed.set(endpoint.id, state);
    if (state.hung_until > Date.now()) return;
    const patience = AbortSignal.timeout(LOOK_TIMEOUT_MS);
    try {
      await look(ctx, endpoint, state, AbortSignal.any([stopping, patience]));
    } catch (error) {
      if (stopping.aborted) return;
      if (patience.aborted) state.hung_until = Date.now() + HUNG_PAUSE_MS;
      // It, or its primary, may just be ending; the availability chore tells.
      ctx.logger.debug({ endpoint_id: endpoint.id, err: error }, 'a replica could not be looked at');
    }
  };
  return async () => {
    const replicas = (await findWatchedEndpoints(ctx.store)).filter(({ type }) => type === 'read_only');
    const ids = new Set(replicas.map(({ id }) => id));
    for (const id of followed.keys()) if (!ids.has(id)) followed.delete(id);
    const lookOn = async () => {
      for (let next = replicas.shift(); next; next = replicas.shift()) await lookAt(next);
    };
    await Promise.all(Array.from({ length: CONCURRENT_LOOKS }, lookOn));
    return ids.size > 0;
  };
}

async function look(ctx: EngineContext, endpoint: WatchedEndpoint, state: Followed, signal: AbortSignal) {
  const facts = await findEndpointFacts(ctx.store, endpoint.id);
  // Of another timeline: whoever pointed its branch there restarts it, or the next who connects.
  if (!facts?.replica_volume || facts.serves_timeline_id !== facts.timeline_id) return;
  const timeline = await findTimeline(ctx.store, facts.timeline_id);
  if (!timeline?.volume) return;
  const primary = await findPrimary(ctx.store, facts.branch_id);
  if (facts.spec_hash !== replicaHash(ctx, facts, primary))
    return restart(ctx, endpoint, 'what it follows has changed');
  await using session = await sessions(ctx, endpoint.compute, signal)('postgres');
  const progress = await readStandbyProgress(session);
  if (progress.paused) return restart(ctx, endpoint, 'its primary has outgrown it');
  const source = await primaryState(ctx, timeline);
  const ahead = await readAhead(ctx, { facts, timeline, source, progress, signal });
  await noteLag(ctx, endpoint, state, progress, ahead);
  // A moment without a stream is nothing: one that has just been woken has to be found first.
  const parted = !progress.streaming && source.state === 'running';
  const mayLay = !progress.streaming && (source.state === 'stopped' || state.parted);
  state.parted = parted;
  if (mayLay) await lay(ctx, endpoint, { facts, timeline, state, progress, ahead });
}

async function readAhead(
  ctx: EngineContext,
  replica: {
    facts: EndpointFacts;
    timeline: TimelineRow;
    source: PrimaryState;
    progress: StandbyProgress;
    signal: AbortSignal;
  },
): Promise<Ahead> {
  const { facts, timeline, source, progress, signal } = replica;
  if (source.state === 'stopped') {
    return { lsn: parseLsn(source.control.checkpointLsn), log: await logOfStopped(ctx, timeline, source.control) };
  }
  await using session = await sessions(ctx, source.compute, signal)('postgres');
  if (!progress.streaming) await ensureReplicationRole(session, replicationPassword(ctx, facts.timeline_id));
  const flushed = await readFlushedLsn(session);
  const { rows } = await session.query(
    "SELECT timeline_id, (SELECT setting::int FROM pg_settings WHERE name = 'wal_segment_size') AS segment_bytes FROM pg_control_checkpoint()",
  );
  const { timeline_id, segment_bytes } = rows[0];
  return { lsn: parseLsn(flushed), log: logOfRunning(flushed, timeline_id, segment_bytes) };
}

async function noteLag(
  ctx: EngineContext,
  { id }: WatchedEndpoint,
  state: Followed,
  { replayed_lsn, commit_age_seconds = 0 }: StandbyProgress,
  ahead: Ahead,
): Promise<void> {
  const bytes = Math.max(0, Number(ahead.lsn - parseLsn(replayed_lsn)));
  const seconds = bytes === 0 ? 0 : Math.round(commit_age_seconds * 10) / 10;
  await observeReplicaLag(ctx.store, id, { bytes, seconds });
  const lagging = seconds > LAG_WARNING_SECONDS;
  if (lagging && !state.lagging) {
    ctx.logger.warn({ endpoint_id: id, reason: `${bytes} bytes, ${seconds} s` }, 'a replica is far behind its primary');
  }
  state.lagging = lagging;
}

async function lay(
  ctx: EngineContext,
  endpoint: WatchedEndpoint,
  replica: {
    facts: EndpointFacts;
    timeline: TimelineRow;
    state: Followed;
    progress: StandbyProgress;
    ahead: Ahead;
  },
): Promise<void> {
  const { facts, timeline, state, progress, ahead } = replica;
  const { log } = ahead;
  const replayed = parseLsn(progress.replayed_lsn);
  if (replayed >= log.to && !(log.with_rest && replayed <= ahead.lsn)) return;
  if (state.laid?.to === log.to && state.laid.at + LAY_AGAIN_MS > Date.now()) return;
  try {
    await layReplicaLog(ctx, timeline, facts.replica_volume!, { from: progress.replayed_lsn, log, keep: false });
    state.laid = { to: log.to, at: Date.now() };
  } catch (error) {
    if (!(error instanceof ArchiveError)) throw error;
    await restart(ctx, endpoint, error.message, { anew: true });
  }
}

/** @param anew its copy is of no use any more */
async function restart(
  ctx: EngineContext,
  endpoint: WatchedEndpoint,
  reason: string,
  { anew = false }: { anew?: boolean } = {},
): Promise<void> {
  const { id, branch_id, project_id } = endpoint;
  const operation = { endpoint_id: id, branch_id };
  const settled = await ctx.intent.transaction().execute(async (trx) => {
    if (!(await lockSettledEndpoint(trx, endpoint))) return false;
    if (anew) await observeReplicaVolume(trx, id, undefined);
    await createCall(trx, project_id, [
      { action: 'suspend_compute', ...operation },
      { action: 'start_compute', ...operation },
    ]);
    return true;
  });
  if (settled) ctx.logger.warn({ endpoint_id: id, reason }, 'a replica is restarted');
}
