import { createHash } from 'node:crypto';
import type { HistoryPoint } from '../domain/history.ts';
import type { TimelineId } from '../domain/ids.ts';
import type { ComputeRef } from '../drivers/compute/contract.ts';
import type { VolumeRef } from '../drivers/storage/contract.ts';
import type { ProjectRow, TimelineRow } from '../store/schema.ts';
import { quietSpec } from './compute-spec.ts';
import type { EngineContext } from './context.ts';
import { discardTimeline, firstServerRef } from './first-start.ts';
import { makeTimeline } from './make-timeline.ts';

/**
 * What a branch is filled from that takes over no data, or masked data: a copy of its source, with a server that nobody
 * reaches. It has no row, so that nothing but the operations of that branch finds it, and its id follows from the branch's
 * timeline. It goes when the branch is filled, or with the branch.
 */
export function schemaSourceId(id: TimelineId): TimelineId {
  const hash = createHash('sha256').update(`schema source of ${id}`).digest('hex');
  return hash.slice(0, 32).replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-');
}

/**
 * Copies the source, as it is or as it was at a point. Only while this runs must the source not start or stop.
 * @returns where the copy parts from it
 */
export async function makeSchemaSource(
  ctx: EngineContext,
  wanted: {
    readonly timeline: TimelineRow;
    readonly project: ProjectRow;
    readonly source: TimelineRow;
    readonly point?: HistoryPoint;
    readonly signal: AbortSignal;
  },
): Promise<HistoryPoint> {
  const { timeline } = wanted;
  await discardSchemaSource(ctx, timeline.id);
  return (await makeTimeline(ctx, { ...wanted, timeline: { ...timeline, id: schemaSourceId(timeline.id) } })).point;
}

/** Nothing is left of it. */
export const discardSchemaSource = (ctx: EngineContext, id: TimelineId): Promise<void> =>
  discardTimeline(ctx, schemaSourceId(id));

/** Runs a server on a volume that nobody reaches but the engine, which may enter as those roles. */
export async function startQuietServer(
  ctx: EngineContext,
  server: {
    readonly timeline: { readonly id: TimelineId; readonly distribution_id: string };
    readonly project: ProjectRow;
    readonly volume: VolumeRef;
    readonly enter_as?: readonly string[];
    readonly signal: AbortSignal;
  },
): Promise<ComputeRef> {
  const { timeline, project, volume, enter_as, signal } = server;
  const spec = quietSpec(ctx, {
    id: firstServerRef(ctx, timeline.id).id,
    distribution_id: timeline.distribution_id,
    data_directory: ctx.storage.path(volume),
    uid: project.uid,
    replays: false,
    enter_as,
  });
  return ctx.compute.ensureRunning(spec, signal);
}
