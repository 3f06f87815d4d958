import pg from 'pg';
import { CoppiceError } from '../domain/errors.ts';
import type { ComputeRef, StopMode } from '../drivers/compute/contract.ts';
import { applyRolesAndDatabases } from '../postgres/apply-config.ts';
import { TEMPLATE_DATABASE, TEMPLATE_ROLE } from '../postgres/template.ts';
import { findDesiredConfig, observeConfig, observePasswords } from '../store/learned.ts';
import {
  type EndpointFacts,
  findPlacedEndpoints,
  observeConfigApplied,
  observeEndpointConfigured,
  observeEndpointPlaced,
  observeEndpointRemoved,
  observeEndpointRunning,
  observeEndpointStopped,
  observeEndpointStopping,
} from '../store/observations.ts';
import { observeReplicaVolume } from '../store/replicas.ts';
import { computeFiles, computeRef, computeSpec, currentSize, specHash } from './compute-spec.ts';
import type { EngineContext } from './context.ts';
import { firstServerRef } from './first-start.ts';
import { readyArchive } from './history/archiving.ts';
import { prepareStop } from './prepare-stop.ts';
import type { Revert } from './revert.ts';
import { sessions } from './sessions.ts';
import { stopPoint } from './stop-point.ts';

/** Whether the server of an endpoint, should one run, is of the timeline that its branch has now. */
export const servesBranch = (endpoint: Pick<EndpointFacts, 'serves_timeline_id' | 'timeline_id'>): boolean =>
  endpoint.serves_timeline_id === endpoint.timeline_id;

/** Whether the endpoint's server runs. One that runs on the timeline of another branch is stopped: it is not meant. */
export async function isServing(ctx: EngineContext, facts: EndpointFacts, signal: AbortSignal): Promise<boolean> {
  const ref = computeRef(ctx, facts);
  if ((await ctx.compute.observe(ref)).state !== 'running') return false;
  if (servesBranch(facts)) return true;
  await observeEndpointStopping(ctx.store, facts.id, true);
  await prepareStop(ctx, { id: facts.id, compute: ref }, signal);
  await ctx.compute.ensureStopped(ref, 'staged');
  await observeEndpointStopped(ctx.store, facts.id);
  return false;
}

/**
 * The server would not hold roles or databases as they are intended: something that was done in SQL is in the way. The
 * message is for the customer whose server it is.
 */
export class ConfigRefused extends Error {
  constructor(cause: Error) {
    super(`the server refused a change of roles or databases: ${cause.message}`, { cause });
  }
}

/**
 * Brings the endpoint's server up with the roles and databases that it should hold, and opens it to the gateway.
 *
 * @param config what becomes of a start when the server refuses a change: `must` fails it; `should` opens the server as
 *   it is, if it was ever what it should be, since nobody could reach anything otherwise
 */
export async function bringUp(
  ctx: EngineContext,
  facts: EndpointFacts,
  { revert, signal, config }: { revert: Revert; signal: AbortSignal; config: 'must' | 'should' },
): Promise<void> {
  const running = await isServing(ctx, facts, signal);
  const { ref, taken_over } = await place(ctx, facts);
  const spec = computeSpec(ctx, { ...facts, compute: ref });
  if (!running && !taken_over) await refuseWhenFull(ctx);
  await readyArchive(ctx, facts);
  // One that runs is taken over, and waited for while it still starts.
  await ctx.compute.ensureRunning(spec, signal);
  if (!running) revert.add(() => ctx.compute.ensureStopped(ref, 'immediate'));
  stopPoint('start_compute:started');
  if (facts.applied_config_generation < facts.config_generation) {
    await applyConfigTo(ctx, facts, ref, signal).catch((error) => {
      const mayOpen = config === 'should' && facts.applied_config_generation > 0;
      if (!(error instanceof ConfigRefused) || !mayOpen) throw error;
      ctx.logger.warn(
        { endpoint_id: facts.id, err: error },
        'a compute starts without a change that its server refuses',
      );
    });
  }
  signal.throwIfAborted();
  await observeEndpointRunning(ctx.store, facts.id, {
    started_at: new Date(),
    // A server that was adopted was told what it was told.
    spec_hash: running ? facts.spec_hash : specHash(ctx, facts),
    current_cu: currentSize(facts),
  });
}

/**
 * Decides what the endpoint's server is called: what it was, as long as it serves the same timeline, or the first server
 * of its timeline, if that runs. That is known before the start, so that whoever deletes or moves the endpoint knows what
 * there may be, and of which timeline.
 */
async function place(ctx: EngineContext, facts: EndpointFacts): Promise<{ ref: ComputeRef; taken_over: boolean }> {
  if (facts.compute && servesBranch(facts)) return { ref: facts.compute, taken_over: false };
  const first = firstServerRef(ctx, facts.timeline_id);
  const others = await findPlacedEndpoints(ctx.store, { timeline_id: facts.timeline_id });
  // One that another endpoint has, which was moved away and still runs, is stopped with that.
  const is_free = !others.some(({ compute }) => compute?.id === first.id);
  const taken_over = is_free && (await ctx.compute.observe(first)).state === 'running';
  const ref = taken_over ? first : { driver: ctx.compute.name, id: facts.id };
  if (facts.compute && facts.compute.id !== ref.id) await ctx.compute.ensureRemoved(facts.compute);
  await observeEndpointPlaced(ctx.intent, facts.id, { compute: ref, timeline_id: facts.timeline_id });
  return { ref, taken_over };
}

/** The server's roles and databases become what is intended. */
export async function applyConfigTo(
  ctx: EngineContext,
  facts: EndpointFacts,
  ref: ComputeRef,
  signal: AbortSignal,
): Promise<void> {
  const desired = await findDesiredConfig(ctx.store, facts.branch_id);
  const fromTemplate = facts.timeline_parent_id === null && facts.applied_config_generation === 0;
  await applyRolesAndDatabases(sessions(ctx, ref, signal), {
    roles: desired.roles.map((role) => ({ ...role, deleted: role.deleted_at !== null })),
    databases: desired.databases.map((database) => ({ ...database, deleted: database.deleted_at !== null })),
    // A new volume holds one database and one role, which become the first ones that are wanted.
    rename: fromTemplate ? { role: TEMPLATE_ROLE, database: TEMPLATE_DATABASE } : undefined,
    onRolesApplied: () => observePasswords(ctx.store, desired.roles),
  }).catch((error) => {
    const refused = error instanceof pg.DatabaseError || error instanceof CoppiceError;
    throw refused ? new ConfigRefused(error) : error;
  });
  stopPoint('apply_config:applied');
  await observeConfig(ctx.store, facts.branch_id, desired);
  await observeConfigApplied(ctx.store, facts.timeline_id, desired.generation);
  // Whoever is told that this has ended must find a gateway that knows the new passwords.
  await ctx.caughtUp();
}

/** Settings that need no restart reach the running server. */
export async function reconfigure(ctx: EngineContext, facts: EndpointFacts, ref: ComputeRef): Promise<void> {
  await readyArchive(ctx, facts);
  await ctx.compute.ensureConfigured(ref, computeFiles(ctx, facts));
  await ctx.compute.ensureResized(ref, currentSize(facts));
  await observeEndpointConfigured(ctx.store, facts.id, specHash(ctx, facts));
}

/** Nothing of the endpoint's compute is left on this machine, nor the copy of its branch that a replica has. */
export async function removeCompute(
  ctx: EngineContext,
  endpoint: Pick<EndpointFacts, 'id' | 'type' | 'compute'>,
  mode: StopMode,
): Promise<void> {
  if (!endpoint.compute) return;
  await ctx.compute.ensureStopped(endpoint.compute, mode);
  await ctx.compute.ensureRemoved(endpoint.compute);
  await observeEndpointStopped(ctx.store, endpoint.id);
  if (endpoint.type === 'read_only') {
    await observeReplicaVolume(ctx.intent, endpoint.id, undefined);
    await ctx.storage.ensureDeleted(endpoint.id);
  }
  await observeEndpointRemoved(ctx.store, endpoint.id);
}

/** What runs already needs room to go on: nothing new is started on a pool that is nearly full. */
export async function refuseWhenFull(ctx: EngineContext): Promise<void> {
  const { free_bytes, reserve_bytes } = await ctx.storage.pool();
  if (free_bytes < reserve_bytes) throw new CoppiceError('storage_full', { noun: 'start', free_bytes, reserve_bytes });
}
