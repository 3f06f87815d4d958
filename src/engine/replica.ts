import { setTimeout as delay } from 'node:timers/promises';
import { type Lsn, parseLsn } from '../domain/lsn.ts';
import { type ComputeRef, ComputeStartError } from '../drivers/compute/contract.ts';
import { ensureReplicationRole } from '../postgres/replication-role.ts';
import { readFlushedLsn, readStandbyProgress, standbyFloorOf } from '../postgres/standby.ts';
import {
  type EndpointFacts,
  findTimeline,
  observeEndpointConfigured,
  observeEndpointPlaced,
  observeEndpointRunning,
} from '../store/observations.ts';
import { findPrimary, observeReplicaVolume } from '../store/replicas.ts';
import { applyConfigAtRest } from './apply-at-rest.ts';
import { computeRef, currentSize } from './compute-spec.ts';
import type { EngineContext } from './context.ts';
import { primaryState } from './primary-state.ts';
import { replicaFiles, replicaHash, replicaSpec, replicationPassword } from './replica-spec.ts';
import { ensureReplicaVolume } from './replica-volume.ts';
import type { Revert } from './revert.ts';
import { isServing, refuseWhenFull, servesBranch } from './server.ts';
import { sessions } from './sessions.ts';
import { stopPoint } from './stop-point.ts';

/** A primary that does not answer for so long is left alone: its replica serves what it has. */
const PRIMARY_TIMEOUT_MS = 5_000;
/** A replica that starts is waited for so long until it has what its primary had. */
const CATCH_UP_TIMEOUT_MS = 5_000;
const CATCH_UP_POLL_MS = 5;

/**
 * Brings a read replica's server up, and opens it to the gateway. Its primary is neither woken nor waited for.
 *
 * @param holds_timeline the caller holds the claim on the branch's timeline, so that roles and databases which no server
 *   of it knows yet can be brought to it
 */
export async function bringUpReplica(
  ctx: EngineContext,
  facts: EndpointFacts,
  { revert, signal, holds_timeline }: { revert: Revert; signal: AbortSignal; holds_timeline: boolean },
): Promise<void> {
  const timeline = await findTimeline(ctx.store, facts.timeline_id);
  if (!timeline?.ready_at || !timeline.volume) throw new Error(`timeline ${facts.timeline_id} is not ready yet`);
  const ref = computeRef(ctx, facts);
  const running = await isServing(ctx, facts, signal);
  // Before anything is made, so that whoever deletes the endpoint or its branch knows what there may be.
  if (!facts.compute || !servesBranch(facts)) {
    await observeEndpointPlaced(ctx.intent, facts.id, { compute: ref, timeline_id: facts.timeline_id });
  }
  if (!running) await refuseWhenFull(ctx);
  const source = await primaryState(ctx, timeline);
  const behind = facts.applied_config_generation < facts.config_generation;
  if (holds_timeline && behind && source.state === 'stopped') await applyConfigAtRest(ctx, facts, { revert, signal });
  const volume =
    running && facts.replica_volume ? facts.replica_volume : await ensureReplicaVolume(ctx, facts, timeline, signal);
  const target = await greetPrimary(ctx, facts, source.state === 'running' ? source.compute : undefined, signal);
  const primary = await findPrimary(ctx.store, facts.branch_id);
  const paths = [timeline.volume, volume].map((one) => ctx.storage.path(one));
  const floors = await Promise.all(paths.map((path) => standbyFloorOf(path)));
  try {
    await ctx.compute.ensureRunning(replicaSpec(ctx, facts, { volume, primary, floors }), signal);
  } catch (error) {
    // Whatever is wrong with the copy, the next attempt makes a new one.
    const broken = error instanceof ComputeStartError && !signal.aborted;
    if (broken && !running) await observeReplicaVolume(ctx.intent, facts.id, undefined);
    throw error;
  }
  if (!running) revert.add(() => ctx.compute.ensureStopped(ref, 'immediate'));
  stopPoint('start_compute:replica_started');
  if (target) await catchUp(ctx, ref, target, signal);
  signal.throwIfAborted();
  await observeEndpointRunning(ctx.store, facts.id, {
    started_at: new Date(),
    spec_hash: running ? facts.spec_hash : replicaHash(ctx, facts, primary),
    current_cu: currentSize(facts),
  });
}

/** A running primary lets the replica in from now on. Returns what it has written so far; undefined when none answers. */
async function greetPrimary(
  ctx: EngineContext,
  facts: EndpointFacts,
  primary: ComputeRef | undefined,
  signal: AbortSignal,
): Promise<Lsn | undefined> {
  if (!primary) return undefined;
  try {
    const patience = AbortSignal.any([signal, AbortSignal.timeout(PRIMARY_TIMEOUT_MS)]);
    await using session = await sessions(ctx, primary, patience)('postgres');
    await ensureReplicationRole(session, replicationPassword(ctx, facts.timeline_id));
    return await readFlushedLsn(session);
  } catch (error) {
    ctx.logger.warn({ endpoint_id: facts.id, err: error }, 'the primary of a replica does not answer');
    return undefined;
  }
}

/** Waits a while for a replica to have what its primary had, so that who wakes it reads no past that he has seen change. */
async function catchUp(ctx: EngineContext, ref: ComputeRef, target: Lsn, signal: AbortSignal): Promise<void> {
  const patience = AbortSignal.any([signal, AbortSignal.timeout(CATCH_UP_TIMEOUT_MS)]);
  try {
    await using session = await sessions(ctx, ref, patience)('postgres');
    for (;;) {
      const { replayed_lsn, paused } = await readStandbyProgress(session);
      if (paused || parseLsn(replayed_lsn) >= parseLsn(target)) return;
      await delay(CATCH_UP_POLL_MS, undefined, { signal: patience });
    }
  } catch {
    signal.throwIfAborted();
  }
}

/** Settings that need no restart reach a running replica. */
export async function reconfigureReplica(ctx: EngineContext, facts: EndpointFacts, ref: ComputeRef): Promise<void> {
  const timeline = await findTimeline(ctx.store, facts.timeline_id);
  const primary = await findPrimary(ctx.store, facts.branch_id);
  const volumes = [timeline?.volume, facts.replica_volume].filter((volume) => volume != null);
  const floors = await Promise.all(volumes.map((volume) => standbyFloorOf(ctx.storage.path(volume))));
  await ctx.compute.ensureConfigured(ref, replicaFiles(ctx, facts, { primary, floors }));
  await ctx.compute.ensureResized(ref, currentSize(facts));
  await observeEndpointConfigured(ctx.store, facts.id, replicaHash(ctx, facts, primary));
}
